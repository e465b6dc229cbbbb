"""Released clients in their own environments, and one of them in a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Self

PROGRAM = Path(__file__).with_name("program.py")
#: The version under test; another one shows what it does to these clients.
SOURCES = Path(os.environ.get("SOURCES_UNDER_TEST") or Path(__file__).parents[2] / "src")
#: A guard against hanging, not a measurement.
PATIENCE = 60.0
#: What our store needs in the client's environment.
_OURS = ("apsw", "click", "PyYAML", "wcwidth")
_SEQUENCE = rb"(?:\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07)*"
#: The prompt of a client that waits; one that works has a sign before it.
_WAITS = rb".*(?<!\xe2\x9a\x95 )\xe2\x9d\xaf"


def interpreter(release: str) -> Path:
    """Return the interpreter of an environment with this release, which is made once and kept
    outside of the tree.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "hermes-sessions-tests" / f"hermes-agent-{release}"
    wanted = [f"hermes-agent=={release}", *(f"{n}=={metadata.version(n)}" for n in _OURS)]
    done, python = folder / "installed.json", folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists() or json.loads(done.read_text()) != [sys.version, wanted]:
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=True)
            # pip alone takes ten times as long.
            subprocess.run([python, "-m", "pip", "install", "--quiet", "uv"], check=True)
            command = [python, "-m", "uv", "pip", "install", "--quiet", "--python", python]
            subprocess.run([*command, *wanted], check=True)
            done.write_text(json.dumps([sys.version, wanted]))
    return python


class InteractiveClient:
    """A client at work in a terminal."""

    def __init__(
        self, command: Sequence[str | Path], place: Path, environ: Mapping[str, str], *given: int
    ) -> None:
        """Run *command* in the directory *place*; *given* are descriptors that it inherits."""
        ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            command,
            cwd=place,
            env=environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            pass_fds=given,
            start_new_session=True,
        )
        os.close(theirs)
        self._terminal = ours
        self._seen = b""
        self.wait_for(_WAITS)

    def ask(self, text: str, answer: bytes) -> None:
        """Type something; wait for the answer, and for the end of the turn."""
        self.type(text)
        self.wait_for(answer + _WAITS)

    def type(self, text: str) -> None:
        """Type a line."""
        self._seen = b""
        os.write(self._terminal, text.encode())
        self.wait_for(_SEQUENCE.join(re.escape(bytes([sign])) for sign in text.encode()))
        self._seen = b""
        os.write(self._terminal, b"\r")

    def wait_for(self, pattern: bytes) -> None:
        """Read until the client has shown something."""
        limit = time.monotonic() + PATIENCE
        while not re.search(pattern, self._seen, re.DOTALL):
            if not self._read(limit):
                shown = self._seen[-3000:].decode(errors="replace")
                raise AssertionError(f"{pattern!r} was not shown, but: {shown}")

    def _read(self, limit: float) -> bool:
        if not select.select([self._terminal], [], [], max(0.0, limit - time.monotonic()))[0]:
            return False
        try:
            read = os.read(self._terminal, 65536)
        except OSError:
            return False
        if b"\x1b[6n" in read:  # where is the cursor?
            os.write(self._terminal, b"\x1b[1;1R")
        self._seen += read
        return bool(read)

    def kill(self) -> None:
        """End it without a chance to do anything."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)

    def leave(self) -> None:
        """End it as a user does."""
        self.type("/exit")
        limit = time.monotonic() + PATIENCE
        while self._read(limit):
            pass
        assert self._process.wait(PATIENCE) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill()
        os.close(self._terminal)


class Client(InteractiveClient):
    """A client in a process in which our store is written, too."""

    def __init__(self, release: str, whose: str, home: Path, base_url: str) -> None:
        """*whose* ``hermes_state`` the client has: ours or theirs."""
        model = {"default": "fake", "provider": "custom", "base_url": base_url, "api_key": "x"}
        config = {"model": {**model, "context_length": 200_000}}
        (home / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        self._stored = b""
        self._acknowledged, writing = os.pipe()
        environ = {
            "HERMES_HOME": str(home),
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "TERM": "xterm",
        }
        command = [interpreter(release), PROGRAM, SOURCES, whose, str(writing), "chat"]
        try:
            super().__init__(command, home, environ, writing)
        finally:
            os.close(writing)

    def say(self, text: str, answer: bytes) -> None:
        """Ask something, and wait until what was written beside it afterwards is acknowledged."""
        self.ask(text, answer)
        self.acknowledged()
        self.acknowledged(2)

    def acknowledged(self, more: int = 0) -> list[str]:
        """Return what was acknowledged beside the client, after waiting for some more."""
        wanted = self._stored.count(b"\n") + more
        while True:
            patience = PATIENCE if self._stored.count(b"\n") < wanted else 0.0
            if not select.select([self._acknowledged], [], [], patience)[0]:
                break
            read = os.read(self._acknowledged, 65536)
            if not read:
                break
            self._stored += read
        numbers = self._stored.decode().splitlines()
        assert len(numbers) >= wanted, f"nothing was stored any more after {numbers[-1:]}"
        return numbers

    def __exit__(self, *_exc: object) -> None:
        super().__exit__(*_exc)
        os.close(self._acknowledged)
