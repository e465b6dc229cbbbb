"""Other processes, which do what tests cannot do in their own: die, fork, hold locks, be stopped.

    with start("hold_gate", path) as other:
        assert other.said() == "inside"
        other.tell()
        other.succeeded()

The programs are the functions of `tests.storage.sqlite.programs`; they speak and listen in lines.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[3]


class OtherProcess:
    """A running program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def said(self) -> str:
        """The next line it says; fails with its complaints when it says nothing more."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            assert self._process.stderr is not None
            raise AssertionError(f"it ended without a word:\n{self._process.stderr.read()}")
        return line.rstrip("\n")

    def has_spoken(self, within: float) -> bool:
        """Whether it prints something within this many seconds."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], within)[0])

    def all_lines(self) -> Iterator[str]:
        """What it says, line by line, until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield line.rstrip("\n")

    def complaints(self) -> str:
        """What it wrote to its standard error, to the end."""
        assert self._process.stderr is not None
        return self._process.stderr.read()

    def all_it_says(self) -> list[str]:
        """Everything it says until it ends."""
        assert self._process.stdout is not None
        return self._process.stdout.read().splitlines()

    def tell(self, line: str = "go") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._process.kill()
        self._process.wait()

    def ended(self) -> int:
        """Wait for its end; return how it ended."""
        return self._process.wait()

    def succeeded(self) -> list[str]:
        """Wait for its end, and require that nothing went wrong; return what it still said."""
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        self._process.stdin.close()
        said = self.all_it_says()
        complaints = self._process.stderr.read()
        self._close()
        assert self._process.returncode == 0, complaints
        return said

    def __enter__(self) -> OtherProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._close()

    def _close(self) -> None:
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):  # What it did not live to be told.
                    stream.close()


def command(program: str, *arguments: object) -> list[str]:
    """The command line of a program."""
    return [sys.executable, "-m", "tests.storage.sqlite.programs", program, *map(str, arguments)]


def start(
    program: str, *arguments: object, prefix: Sequence[str] = (), **popen: Any
) -> OtherProcess:
    """Start a program, behind the command line *prefix* if there is one."""
    search = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return OtherProcess(
        subprocess.Popen(
            [*prefix, *command(program, *arguments)],
            env={**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **popen,
        )
    )
