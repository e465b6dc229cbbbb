"""Broken stores, and `hermes doctor` run on them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from hermes_sessions import SessionDB
from hermes_sessions.cli.console import Console
from hermes_sessions.cli.main import run

NOW = 1741186800.0  # 2025-03-05 15:00:00 UTC
SESSION = "20250305_140000_0a0a0a0a"


@dataclass(frozen=True)
class DoctorReport:
    """What the doctor says, as JSON."""

    code: int
    document: dict[str, Any]
    err: str = ""

    @property
    def found(self) -> list[str]:
        return sorted({each["condition"] for each in self.document["findings"]})

    @property
    def unknown(self) -> list[str]:
        return sorted(each["condition"] for each in self.document["unknown"])

    @property
    def mended(self) -> list[str]:
        assert all(each["done"] for each in self.document["mended"]), self.document["mended"]
        return [each["what"] for each in self.document["mended"]]

    def what(self, condition: str) -> str:
        """Everything that is said about a condition."""
        return "\n".join(
            each["what"] for each in self.document["findings"] if each["condition"] == condition
        )


@dataclass
class DoctorHarness:
    """A home with a store, on any database."""

    home: Path
    config: str = ""

    def __post_init__(self) -> None:
        self.home.mkdir(mode=0o700, exist_ok=True)
        if self.config:
            (self.home / "config.yaml").write_text(self.config)
            (self.home / "config.yaml").chmod(0o600)

    @property
    def now(self) -> float:
        """When everything happens; a server has a clock of its own."""
        return time.time() if self.config else NOW

    @property
    def store(self) -> Path:
        return self.home / "state.db"

    @contextmanager
    def db(self, after: float = 0.0) -> Iterator[SessionDB]:
        with (
            mock.patch.dict(os.environ, HERMES_HOME=str(self.home)),
            SessionDB(clock=lambda: self.now + after) as db,
        ):
            yield db

    def fill(self) -> None:
        with self.db() as db:
            db.create_session(SESSION, "cli")
            db.append_messages(
                SESSION,
                [{"role": "user", "content": f"number {n} " + "x" * 500} for n in range(200)],
            )
            db.set_session_title(SESSION, "Numbers")
            db.optimize_search()

    def run(self, *statements: str) -> None:
        """Execute SQL beside the product, as a user with a database tool would."""
        program = (
            "import sqlite3, sys\n"
            "db = sqlite3.connect(sys.argv[1])\n"
            "for sql in sys.argv[2:]: db.execute(sql)\n"
            "db.commit()\n"
            "db.close()\n"
        )
        subprocess.run([sys.executable, "-c", program, self.store, *statements], check=True)

    def look(
        self,
        *flags: str,
        after: float = 0.0,
        environ: Mapping[str, str] | None = None,
        stopwatch: Any = lambda: 0.0,
    ) -> DoctorReport:
        """Ask the doctor, in this process; without ``--fix`` nothing may change."""
        before = fingerprints(self.home)
        result = self.call(
            "doctor", "--json", *flags, after=after, environ=environ, stopwatch=stopwatch
        )
        if "--fix" not in flags:
            assert fingerprints(self.home) == before
        code, out, err = result
        return DoctorReport(code, json.loads(out), err)

    def call(
        self,
        *arguments: str,
        after: float = 0.0,
        environ: Mapping[str, str] | None = None,
        stopwatch: Any = lambda: 0.0,
    ) -> tuple[int, str, str]:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
        err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
        console = Console(
            clock=lambda: self.now + after,
            stopwatch=stopwatch,
            environ=environ or {"PATH": "/nowhere"},
        )
        with (
            mock.patch.multiple(sys, stdin=io.StringIO(""), stdout=out, stderr=err),
            mock.patch.dict(os.environ, HERMES_HOME=str(self.home)),
        ):
            code = run(arguments, console)
        for stream in (out, err):
            stream.flush()
        said, complained = (
            stream.buffer.getvalue().decode()  # type: ignore[attr-defined]
            for stream in (out, err)
        )
        return code, said, complained

    def look_elsewhere(
        self, *flags: str, prefix: list[str] | None = None, **environ: str
    ) -> DoctorReport:
        """Ask the doctor in a process of its own, perhaps with other surroundings."""
        kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
        done = subprocess.run(
            [*(prefix or []), sys.executable, "-m", "hermes_sessions", "doctor", "--json", *flags],
            env={**kept, "HERMES_HOME": str(self.home), "HOME": str(self.home), **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        return DoctorReport(done.returncode, json.loads(done.stdout), done.stderr)


def fingerprints(place: Path) -> dict[str, tuple[str, int, int]]:
    """What every file holds, who may read it, and when it was changed."""
    return {
        str(path.relative_to(place)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mode,
            path.stat().st_mtime_ns,
        )
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


@contextmanager
def another_process(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a program that printed one line and continues until it is told to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        yield process
    finally:
        process.kill()
        process.communicate()
