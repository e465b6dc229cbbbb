"""Whether a path still leads to the file that was opened there."""

from __future__ import annotations

import os
import time
from typing import Final

import apsw

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.storage.sqlite.connection import wal_size

#: Where ``state_meta`` has how often a log was removed in use, and when last: ``{count, last}``.
REMOVED_LOGS: Final = "store:removed_logs"
_COUNT: Final = """
INSERT INTO state_meta (key, value) VALUES (?1, json_object('count', 1, 'last', ?2))
ON CONFLICT (key) DO UPDATE
SET value = json_object('count', json_extract(value, '$.count') + 1, 'last', ?2)
"""


class LogRemoved(StoreUnavailable):
    """The log was removed before a write was committed, so nothing of it happened."""


class FileIdentity:
    """The file at a path, as it was at first sight."""

    def __init__(self, path: str | None, *, immutable: bool = False) -> None:
        """*path* is None for a database in memory. An *immutable* file, which is read without
        locks, must not even be written.
        """
        self._path = path
        self._immutable = immutable
        self._first = self._look()

    @property
    def inode(self) -> tuple[int, ...] | None:
        """Which file it is, however it is called; None in memory."""
        return None if self._path is None else self._first[:2]

    def is_unchanged(self) -> bool:
        """Return whether it is still the same file."""
        return self._look() == self._first

    @property
    def complaint(self) -> str:
        """What to tell about one that is not."""
        if self._immutable:
            return (
                f"{self._path} was changed while it was open for reading in a place without room "
                f"for locks. Close this handle and open the store again."
            )
        return (
            f"{self._path} was removed or replaced while it was open; nothing was written to the "
            f"old file. Close this handle and open the store again."
        )

    def _look(self) -> tuple[int, ...]:
        if self._path is None:
            return ()
        try:
            facts = os.stat(self._path)
        except OSError:
            return (0, 0)
        inode = (facts.st_dev, facts.st_ino)
        if self._immutable:
            # Nothing but these tells that somebody wrote the file or its log.
            return (*inode, facts.st_size, facts.st_mtime_ns, wal_size(self._path))
        return inode


class WalIdentity:
    """The write-ahead log beside a store and the log's index, as they were when this process opened
    them.

    SQLite never removes them while a connection uses them. Where something else did, commits go
    into a file without a name, or other processes share no locks with this one.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._files = (f"{path}-wal", f"{path}-shm")
        self._first: list[int] | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is one to compare with."""
        return self._first is not None

    def remember(self) -> None:
        """Take the files that are there now for those that connections have open."""
        self._first = self._look()

    def forget(self) -> None:
        """Know of none: no connection is open."""
        self._first = None

    def is_unchanged(self) -> bool:
        """Return whether they are still the same files, as far as that is known."""
        return self._first is None or self._look() == self._first

    def _look(self) -> list[int] | None:
        try:
            return [os.stat(file).st_ino for file in self._files]
        except OSError:
            return None

    @property
    def complaint(self) -> str:
        """What happened to one that is not."""
        return (
            f"{self._path}-wal or -shm was removed or replaced while it was in use, by another "
            f"program or another SQLite library in this process"
        )

    @property
    def complaint_of_readers(self) -> str:
        """What to tell when reads that still run keep the store from going on."""
        return (
            f"{self.complaint}. Close every handle on {self._path} in this process, then open it "
            f"again."
        )


def count_removed_log(connection: apsw.Connection) -> None:
    """Note for the doctor that it happened, now, in the file: the new log may be removed, too."""
    connection.execute(_COUNT, (REMOVED_LOGS, time.time()))
    connection.wal_checkpoint()
