"""Opening a connection with the settings that all connections of a store share."""

import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Final, Literal, NamedTuple
from urllib.parse import quote_from_bytes

import apsw

from hermes_sessions.storage.sqlite.ofd_locks import install

#: The write-ahead log is truncated to this size when it restarts.
_WAL_SIZE_LIMIT: Final = 32 * 1024 * 1024


class SQLiteOptions(NamedTuple):
    """How one file is opened."""

    #: full: an acknowledged write survives power loss. normal: it survives a crash of the process;
    #: power loss may lose the newest writes, never older ones and never the file.
    durability: Literal["full", "normal"] = "full"
    #: Seconds that a writer waits for other processes.
    lock_timeout: float = 16.0
    #: auto: a write-ahead log where the file system supports it, a rollback journal elsewhere.
    journal: Literal["auto", "wal", "delete"] = "auto"
    read_only: bool = False
    #: Whether a store is backed up before a migration changes its tables.
    back_up_first: bool = True
    #: See `OpenOptions.upgrade_later`.
    upgrade_later: bool = False
    #: Page cache of each connection.
    cache_kib: int = 16 * 1024


class Deadline:
    """The end of a wait for a lock, shared by a connection's busy handler and its user."""

    __slots__ = ("at", "clock")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.at = 0.0

    def start(self, seconds: float) -> float:
        """Begin a new wait; return when it ends."""
        self.at = self.clock() + seconds
        return self.at

    def wait_for_lock(self, attempt: int) -> bool:
        """Sleep with jitter, as a busy handler; return False once the deadline has passed."""
        remaining = self.at - self.clock()
        if remaining <= 0:
            return False
        import random  # Only processes that wait need it.

        nap = min(0.001 * 1.5 ** min(attempt, 10), 0.05)
        time.sleep(min(nap * random.uniform(0.5, 1.5), remaining))  # noqa: S311 - no secret
        return True


#: The path of each connection: a connection in use by another thread cannot be asked.
_paths: weakref.WeakKeyDictionary[apsw.Connection, str] = weakref.WeakKeyDictionary()


def connections_to(path: str) -> list[apsw.Connection]:
    """Return the open connections of this process to a file, including those of other modules."""
    found = []
    for connection in apsw.connections():
        try:
            name: str | None = connection.filename
        except apsw.ConnectionClosedError:
            continue  # Another thread closed it meanwhile.
        except apsw.ThreadingViolationError:
            name = _paths.get(connection, path)
        if name == path:
            found.append(connection)
    return found


def open_connection(
    path: str,
    options: SQLiteOptions,
    deadline: Deadline,
    *,
    query_only: bool,
    immutable: bool = False,
) -> apsw.Connection:
    """Return a connection to an existing file (or ``:memory:``) with the store's settings."""
    if path == ":memory:":
        connection = apsw.Connection(path)
        # Data of an in-memory database must not reach a disk through sorting either.
        connection.pragma("temp_store", "MEMORY")
    else:
        install()
        flags = apsw.SQLITE_OPEN_READONLY if options.read_only else apsw.SQLITE_OPEN_READWRITE
        # File names are bytes to the system and need not be valid text.
        name = quote_from_bytes(os.fsencode(path))
        uri = f"file:{name}{'?immutable=1' if immutable else ''}"
        connection = apsw.Connection(uri, flags=flags | apsw.SQLITE_OPEN_URI)
        _paths[connection] = path
    try:
        connection.set_busy_handler(deadline.wait_for_lock)
        connection.pragma("foreign_keys", "ON")
        set_durability(connection, options)
        connection.pragma("cache_size", -options.cache_kib)
        connection.pragma("journal_size_limit", _WAL_SIZE_LIMIT)
        if sys.platform == "darwin":
            connection.pragma("fullfsync", "ON")
            connection.pragma("checkpoint_fullfsync", "ON")
        if query_only:
            connection.pragma("query_only", "ON")
    except BaseException:
        connection.close(True)
        raise
    return connection


def set_durability(connection: apsw.Connection, options: SQLiteOptions) -> None:
    """Apply the durability; the connection must not be inside a transaction."""
    if options.durability == "full":
        # EXTRA is FULL, and with a rollback journal it also makes the removal of the journal
        # durable: a journal that reappears after a power failure would undo an acknowledged write.
        level = "EXTRA"
    else:
        # With a rollback journal, NORMAL could leave a damaged file on some old file systems.
        level = "FULL" if options.journal == "delete" else "NORMAL"
    connection.pragma("synchronous", level)


def wal_size(path: str) -> int:
    """Return the size of the write-ahead log in bytes, 0 without one."""
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0
