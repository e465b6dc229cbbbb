"""Runs the command: in this process with a frozen clock, or as a real process."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from hermes_sessions import SessionDB
from hermes_sessions.cli.console import Console
from hermes_sessions.cli.main import run

NOW = 1741186800.0  # 2025-03-05 15:00:00 UTC
DAY = 86400.0


@dataclass(frozen=True)
class Result:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Hermes:
    """The command, on a store of its own."""

    home: Path

    @property
    def store(self) -> Path:
        return self.home / "state.db"

    @contextmanager
    def db(self, now: float = NOW) -> Iterator[SessionDB]:
        """The store, for preparing what a test needs and looking at what it did."""
        with SessionDB(self.store, clock=lambda: now) as db:
            yield db

    def call(
        self,
        *arguments: str,
        stdin: str = "",
        environ: Mapping[str, str] | None = None,
        stopwatch: Callable[[], float] = lambda: 0.0,
        now: float = NOW,
    ) -> Result:
        """Run the command in this process, as into pipes, at the time of the tests."""
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
        err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
        console = Console(clock=lambda: now, stopwatch=stopwatch, environ=environ or {})
        with (
            mock.patch.multiple(sys, stdin=io.StringIO(stdin), stdout=out, stderr=err),
            mock.patch.dict(os.environ, HERMES_HOME=str(self.home)),
        ):
            code = run(arguments, console)
        for stream in (out, err):
            stream.flush()
        return Result(
            code,
            *(stream.buffer.getvalue().decode() for stream in (out, err)),  # type: ignore[attr-defined]
        )

    def environ(self, **changes: str) -> dict[str, str]:
        """The environment that a real run gets."""
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home.parent),
            "HERMES_HOME": str(self.home),
            "TZ": "UTC",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            **changes,
        }

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start the installed command, under its first name unless another is given."""
        program = Path(sys.executable).with_name(options.pop("name", "hermes"))
        return self._start(str(program), *arguments, **options)

    def start_program(self, program: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start a program that has the same surroundings as the command."""
        return self._start("-c", program, *arguments, **options)

    def _start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        environ = self.environ(**options.pop("environ", {}))
        return subprocess.Popen(
            [sys.executable, *arguments],
            **{
                "env": environ,
                "stdin": subprocess.PIPE,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                "encoding": "utf-8",
                **options,
            },
        )

    def run(self, *arguments: str, stdin: str = "", **options: Any) -> Result:
        """Run the installed command and wait for its end."""
        process = self.start(*arguments, **options)
        out, err = process.communicate(stdin)
        return Result(process.returncode, out or "", err or "")
