"""Opening a connection with the settings every connection of a store has."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

import apsw

#: The write-ahead log is cut back to this size when it starts over.
_WAL_SIZE_LIMIT: Final = 32 * 1024 * 1024
_CACHE_KIB: Final = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one file is opened."""

    #: full: an acknowledged write survives power loss. normal: it survives the death of the
    #: process; power loss may take the newest ones, never older ones, never the file.
    durability: Literal["full", "normal"] = "full"
    #: Seconds a writer waits for other processes before it gives up.
    lock_timeout: float = 16.0
    #: auto: write-ahead log where the file system carries it, rollback journal elsewhere.
    journal: Literal["auto", "wal", "delete"] = "auto"
    read_only: bool = False


class Deadline:
    """When waiting for a lock ends; shared by a connection's busy handler and its user."""

    __slots__ = ("at", "clock")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.at = 0.0

    def start(self, seconds: float) -> float:
        """Begin a new wait; return when it ends."""
        self.at = self.clock() + seconds
        return self.at

    def wait_for_lock(self, attempt: int) -> bool:
        """Busy handler: nap with jitter until the deadline, so that waiters do not move in step."""
        remaining = self.at - self.clock()
        if remaining <= 0:
            return False
        nap = min(0.001 * 1.5 ** min(attempt, 10), 0.05)
        time.sleep(min(nap * random.uniform(0.5, 1.5), remaining))  # noqa: S311 - no secret
        return True


def open_connection(
    path: str, options: Options, deadline: Deadline, *, query_only: bool, immutable: bool = False
) -> apsw.Connection:
    """Return a connection to an existing file (or ``:memory:``) with the store's settings."""
    if path == ":memory:":
        connection = apsw.Connection(path)
    else:
        flags = apsw.SQLITE_OPEN_READONLY if options.read_only else apsw.SQLITE_OPEN_READWRITE
        uri = f"file:{quote(path)}{'?immutable=1' if immutable else ''}"
        connection = apsw.Connection(uri, flags=flags | apsw.SQLITE_OPEN_URI)
    connection.set_busy_handler(deadline.wait_for_lock)
    settings = [
        "foreign_keys = ON",
        f"synchronous = {options.durability.upper()}",
        f"cache_size = -{_CACHE_KIB}",
        f"journal_size_limit = {_WAL_SIZE_LIMIT}",
    ]
    if sys.platform == "darwin":
        settings += ["fullfsync = ON", "checkpoint_fullfsync = ON"]
    if query_only:
        settings.append("query_only = ON")
    for setting in settings:
        connection.pragma(*_pair(setting))
    return connection


def _pair(setting: str) -> tuple[str, str | int]:
    name, _, value = setting.partition(" = ")
    return name, int(value) if value.lstrip("-").isdigit() else value


def log_size(path: str) -> int:
    """Return the bytes waiting in the write-ahead log, 0 when there is none."""
    try:
        return Path(f"{path}-wal").stat().st_size
    except OSError:
        return 0
