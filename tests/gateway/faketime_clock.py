"""A clock that a test controls for a real process, with libfaketime."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest

#: Where packages put it.
_LIBRARIES = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime")


def _library() -> Path:
    for pattern in _LIBRARIES:
        for found in Path("/").glob(f"{pattern.lstrip('/')}/libfaketimeMT.so.1"):
            return found
    pytest.fail("libfaketime is missing: run ./test, which installs it.")


class FaketimeClock:
    """The time of processes with `environ`: it runs by itself, and jumps on request.

    Only the time of day: waiting takes as long as ever, as on a machine whose clock is set.
    """

    def __init__(self, folder: Path, now: datetime) -> None:
        self._file = folder / "shifted-by"
        self._set_aside = folder / "shifted-by.new"
        self.environ = {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        self.jump(now)

    def jump(self, moment: datetime) -> None:
        """Let it be this moment now."""
        seconds = moment.timestamp() - time.time()
        self._set_aside.write_text(f"{seconds:+.3f}", encoding="ascii")
        # At once: a process may be reading it.
        self._set_aside.replace(self._file)
