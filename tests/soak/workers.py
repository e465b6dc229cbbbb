"""The processes of a soak run, as the test sees them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from tests.storage.sqlite.other_process import ROOT

#: Seconds of silence after which a process counts as hanging.
PATIENCE = 400.0


class Worker:
    """A process of `tests.soak.program`."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.program", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        #: Numbers of acknowledged messages, by who wrote them.
        self.acknowledged: dict[str, list[int]] = defaultdict(list)
        #: How many of its threads found the disk full.
        self.found_full = 0
        self._is_ready = threading.Event()
        self._is_done = threading.Event()
        self._is_done.set()
        self._complaints = ""
        self._listeners = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._read_complaints, daemon=True),
        ]
        for listener in self._listeners:
            listener.start()
        self._await(self._is_ready)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match line.split():
                case ["ready"]:
                    self._is_ready.set()
                case ["done"]:
                    self._is_done.set()
                case ["full", _]:
                    self.found_full += 1
                case [who, number]:
                    self.acknowledged[who].append(int(number))
        self._is_ready.set()
        self._is_done.set()

    def _read_complaints(self) -> None:
        # At once: who writes more than a pipe holds would wait for ever.
        assert self._process.stderr is not None
        self._complaints = self._process.stderr.read()

    def do(self, amount: int) -> None:
        """Let it do so much, beside everything else."""
        assert self._process.stdin is not None
        self._await(self._is_done)
        self._is_done.clear()
        self._process.stdin.write(f"{amount}\n")
        self._process.stdin.flush()

    def _await(self, event: threading.Event) -> None:
        if not event.wait(PATIENCE):
            self.kill()
            raise AssertionError(f"nothing was heard of it any more:\n{self._complaints}")
        code = self._process.poll()
        assert code is None or code == 0, self._ended()

    def _ended(self) -> str:
        for listener in self._listeners:
            listener.join()
        return f"ended with {self._process.returncode}:\n{self._complaints}"

    def end(self) -> None:
        """Let it finish and end in order."""
        self._await(self._is_done)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._require_end(0)

    def terminate(self) -> None:
        """Ask it to end at any point of its work."""
        self._process.send_signal(signal.SIGTERM)
        self._require_end(0)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._process.kill()
        self._require_end(-signal.SIGKILL)

    def _require_end(self, code: int) -> None:
        self._process.wait(PATIENCE)
        said = self._ended()
        self._close()
        assert self._process.returncode == code, said

    def destroy(self) -> None:
        """Leave nothing behind, also after a failure."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._ended()
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):  # What it did not live to be told.
                    stream.close()


def writer(url: str, name: str, limit: int | None = None) -> Worker:
    """Start a process that writes; with *limit*, no file may grow beyond that many bytes."""
    return Worker("write", url, name, "none" if limit is None else str(limit))


def reader(url: str) -> Worker:
    """Start a process that lists, reads and searches."""
    return Worker("read", url)


def path_of(url: str) -> Path:
    """The file of a SQLite store."""
    return Path(url.removeprefix("sqlite:///"))
