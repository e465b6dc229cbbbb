"""Detects that a store's file or log was replaced while it is open."""

from __future__ import annotations

import os
import time
from typing import Final

import apsw

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.storage.sqlite.connection import wal_size

#: The ``state_meta`` key that counts logs removed in use: ``{count, last}``.
REMOVED_LOGS: Final = "store:removed_logs"
_COUNT: Final = """
INSERT INTO state_meta (key, value) VALUES (?1, json_object('count', 1, 'last', ?2))
ON CONFLICT (key) DO UPDATE
SET value = json_object('count', json_extract(value, '$.count') + 1, 'last', ?2)
"""


class LogRemoved(StoreUnavailable):
    """The log was removed before a write was committed; the write did not happen."""


class FileIdentity:
    """The file at a path, as it was when first seen."""

    def __init__(self, path: str | None, *, immutable: bool = False) -> None:
        """*path* is None for an in-memory database. An *immutable* file is read without locks and
        must not even be written.
        """
        self._path = path
        self._immutable = immutable
        self._first = self._look()

    @property
    def inode(self) -> tuple[int, ...] | None:
        """The identity of the file, independent of its name; None in memory."""
        return None if self._path is None else self._first[:2]

    def is_unchanged(self) -> bool:
        """Return whether it is still the same file."""
        return self._look() == self._first

    @property
    def error_message(self) -> str:
        """The error message for a file that changed."""
        if self._immutable:
            return (
                f"{self._path} was changed while it was open for reading in a directory without "
                f"room for locks. Close this handle and open the store again."
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
            # Only these reveal that the file or its log was written.
            return (*inode, facts.st_size, facts.st_mtime_ns, wal_size(self._path))
        return inode


class WalIdentity:
    """The write-ahead log of a store and the log's index, as this process opened them.

    SQLite never removes them while a connection uses them. If another program did, commits go into
    an unnamed file, or other processes share no locks with this one.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._files = (f"{path}-wal", f"{path}-shm")
        self._first: list[int] | None = None

    @property
    def is_known(self) -> bool:
        """Whether an identity was remembered."""
        return self._first is not None

    def remember(self) -> None:
        """Remember the present files as those that connections have open."""
        self._first = self._look()

    def forget(self) -> None:
        """Forget the files: no connection is open."""
        self._first = None

    def is_unchanged(self) -> bool:
        """Return whether they are still the same files, as far as known."""
        return self._first is None or self._look() == self._first

    def _look(self) -> list[int] | None:
        try:
            return [os.stat(file).st_ino for file in self._files]
        except OSError:
            return None

    @property
    def description(self) -> str:
        """The description of what happened to files that changed."""
        return (
            f"{self._path}-wal or -shm was removed or replaced while it was in use, by another "
            f"program or another SQLite library in this process"
        )

    @property
    def blocked_by_readers(self) -> str:
        """The error message when running reads prevent the store from reopening."""
        return (
            f"{self.description}. Close every handle on {self._path} in this process, then open it "
            f"again."
        )


def count_removed_log(connection: apsw.Connection) -> None:
    """Record the event in the file for the doctor; now, because the new log may be removed, too."""
    connection.execute(_COUNT, (REMOVED_LOGS, time.time()))
    connection.wal_checkpoint()
