"""Sharing a store with Python's SQLite library where locks belong to the process.

Where `ofd_locks` is impossible, and with a rollback journal, the locks of two copies of SQLite in
one process do not exclude each other. But each copy coordinates its own connections. So once
Python's library is about to open the store (an audit event tells), this process also opens a
connection of that library, and does everything inside ``BEGIN EXCLUSIVE`` there. Only a rollback
journal has such a
lock: a store with a log is switched first.

That connection stays open, so that its library never closes the file as the last user and never
drops the locks of this process. The same holds for our engine, see `SQLiteEngine.has_neighbour`.

Libraries without audit events, and ``ATTACH``, are not detected.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hermes_sessions.errors import StoreLocked

#: The locks to engage when the other library is about to open their file.
_watched: weakref.WeakSet[Sqlite3Lock] = weakref.WeakSet()
_is_ours = threading.local()
_is_watching = False


class Sqlite3Lock:
    """The lock of one engine in the other library; engaged once that library opens the file."""

    def __init__(
        self, path: str, inode: tuple[int, ...], on_other_library: Callable[[], None]
    ) -> None:
        """*on_other_library* brings the engine to rest and calls `engage`."""
        self._path = path
        self.inode = inode
        self.on_other_library = on_other_library
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        #: Number of threads that read or write inside one transaction of that connection.
        self._users = 0

    def watch(self) -> None:
        """Engage when Python's library opens the file; at once if it may have done so already."""
        global _is_watching  # noqa: PLW0603 - a hook cannot be removed, so there is one
        _watched.add(self)
        if not _is_watching:
            _is_watching = True
            sys.addaudithook(_on_audit_event)
        if has_connections():
            self.on_other_library()

    def engage(self) -> None:
        """Open a connection of the other library; the engine is at rest."""
        connection = _connect(self._path)
        # A read makes it keep the file open.
        connection.execute("PRAGMA schema_version").fetchall()
        self._connection = connection

    @property
    def is_engaged(self) -> bool:
        """Whether the other library may have the file open."""
        return self._connection is not None

    @contextmanager
    def held(self, patience: float) -> Iterator[None]:
        """Exclude the other library while this process uses the store.

        Raises:
            StoreLocked: it used the store for longer than *patience* seconds.
        """
        connection = self._connection
        if connection is None:
            yield
            return
        with self._lock:
            if self._users == 0:
                self._begin(connection, patience)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    connection.execute("ROLLBACK")

    def _begin(self, connection: sqlite3.Connection, patience: float) -> None:
        connection.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise StoreLocked(
                f"{self._path}: database is locked: another process, or another SQLite library in "
                f"this one, has been using it for {patience:g} s ({error})."
            ) from error


def _on_audit_event(event: str, arguments: tuple[object, ...]) -> None:
    if event != "sqlite3.connect" or not _watched or getattr(_is_ours, "now", False):
        return
    inodes = set(_inodes(arguments[0]))
    for shield in list(_watched):
        if shield.inode in inodes and not shield.is_engaged:
            shield.on_other_library()


def _inodes(database: object) -> Iterator[tuple[int, int]]:
    """Yield the files that a database name given to the other library may mean."""
    try:
        name = os.fsdecode(database)  # type: ignore[arg-type]
    except TypeError:
        return
    names = [name]
    if name.startswith("file:"):
        names.append(unquote(urlsplit(name).path))
    for one in names:
        try:
            facts = Path(one).stat()
        except (OSError, ValueError):
            continue
        yield (facts.st_dev, facts.st_ino)


def _connect(path: str) -> sqlite3.Connection:
    _is_ours.now = True
    try:
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    finally:
        _is_ours.now = False


def switch_to_rollback_journal(path: str) -> None:
    """Switch a store that this process has not opened yet to a rollback journal.

    The other library does that, because it knows its own connections.

    Raises:
        StoreLocked: one of them, or another process, has the store open with a log.
    """
    try:
        with closing(_connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    except sqlite3.OperationalError as error:
        raise StoreLocked(
            f"{path}: database is locked ({error}). Another SQLite library in this process, or "
            f"another process, has it open. Here two libraries in one process can share it only "
            f"if ours opens it first and alone. Close it there, then try again."
        ) from error
    except sqlite3.DatabaseError:
        return  # Not a database, or a damaged one; opening it reports that.


def has_connections() -> bool:
    """Return whether Python's library may have any file open."""
    import gc

    return any(isinstance(one, sqlite3.Connection) for one in gc.get_objects())
