"""The pool of read connections: each read has its own, so that no read waits for another."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final

import apsw

from hermes_sessions.errors import StoreError
from hermes_sessions.storage.sqlite.connection import Deadline
from hermes_sessions.storage.sqlite.transaction import ApswTransaction

# One read: a borrowed connection inside a transaction. (Classes, because every read pays for them.)


class ReadConnection:
    """Lends a connection that sees one snapshot of the database."""

    __slots__ = ("_explain", "_keep", "_patience", "_reader", "_readers")

    def __init__(
        self,
        readers: ReaderPool,
        patience: float,
        *,
        keep: bool,
        explain: Callable[[apsw.Error], StoreError],
    ) -> None:
        """*explain* translates driver errors; *keep* as in `ReaderPool.give_back`."""
        self._readers = readers
        self._patience = patience
        self._keep = keep
        self._explain = explain

    def __enter__(self) -> apsw.Connection:
        try:
            self._reader, connection = self._readers.borrow(self._patience)
            try:
                connection.execute("BEGIN")
            except BaseException:
                self._readers.give_back(self._reader, keep=False)
                raise
        except apsw.Error as error:
            raise self._explain(error) from error
        return connection

    def __exit__(
        self, kind: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._readers.give_back(self._reader, keep=self._keep)
        if isinstance(error, apsw.Error):
            raise self._explain(error) from error


class ReadContext:
    """Context manager for the transaction of one read."""

    __slots__ = ("_reading",)

    def __init__(self, reading: AbstractContextManager[apsw.Connection]) -> None:
        self._reading = reading

    def __enter__(self) -> ApswTransaction:
        return ApswTransaction(self._reading.__enter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._reading.__exit__(kind, error, traceback)


#: Idle connections that stay open for the next read.
KEPT_IDLE: Final = 8


class PooledReader:
    """A connection for one read at a time, with its lock deadline."""

    __slots__ = ("__weakref__", "connection", "deadline", "is_outdated")

    def __init__(self) -> None:
        self.deadline = Deadline()
        self.connection: apsw.Connection | None = None
        #: Whether connections are now opened with other settings.
        self.is_outdated = False


class ReaderPool:
    """Lends connections for reading, and keeps some open for the next read."""

    def __init__(
        self,
        connect: Callable[[Deadline], apsw.Connection],
        on_late_close: Callable[[], None] = lambda: None,
    ) -> None:
        """*on_late_close* is called when a connection was closed after `close`."""
        self._connect = connect
        self._on_late_close = on_late_close
        # Reentrant, because a garbage-collected generator may return its reader at any allocation,
        # even inside this class.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._idle: list[PooledReader] = []
        #: With the thread, because a thread cannot wait for its own read to end. Weak: a reader
        #: that an interrupt kept from being returned is closed when it is collected.
        self._busy: dict[int, tuple[weakref.ref[PooledReader], int]] = {}
        self._closed = False
        self._held = False

    def add(self, connection: apsw.Connection, deadline: Deadline) -> None:
        """Add an open connection to the pool; its busy handler uses *deadline*."""
        reader = PooledReader()
        reader.connection, reader.deadline = connection, deadline
        with self._lock:
            self._idle.append(reader)

    def borrow(self, patience: float) -> tuple[PooledReader, apsw.Connection]:
        """Return a reader for the calling thread; it waits up to *patience* seconds for locks."""
        me = threading.get_ident()
        with self._lock:
            if self._held and me not in self._users():
                self._changed.wait_for(lambda: not self._held, patience)
            reader = self._idle.pop() if self._idle else PooledReader()
            # Registered before it is opened, so that a fork never misses a connection.
            self._busy[id(reader)] = (weakref.ref(reader), me)
        try:
            reader.deadline.start(patience)
            connection = reader.connection
            if connection is None:
                connection = reader.connection = self._connect(reader.deadline)
        except BaseException:
            self._forget(reader)
            raise
        return reader, connection

    def give_back(self, reader: PooledReader, *, keep: bool = True) -> None:
        """End the read, and *keep* the connection if there is room."""
        usable = False
        try:
            usable = keep and _at_rest(reader.connection)
        finally:
            with self._lock:
                # Checked under the lock: `renew` may be called while the connection is reset.
                usable = usable and not reader.is_outdated and not self._closed
                if usable and len(self._idle) < KEPT_IDLE:
                    self._idle.append(reader)
                elif reader.connection is not None:
                    reader.connection.close(True)
                self._forget(reader)
            if self._closed:
                self._on_late_close()

    def _forget(self, reader: PooledReader) -> None:
        with self._lock:
            self._busy.pop(id(reader), None)
            if self._held:
                self._changed.notify_all()

    def close_idle(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
            for reader in idle:
                if reader.connection is not None:
                    reader.connection.close(True)

    def renew(self) -> None:
        """Do not reuse any open connection: the settings have changed."""
        with self._lock:
            self.close_idle()
            for known, _ in self._busy.values():
                reader = known()
                if reader is not None:
                    reader.is_outdated = True

    def close(self) -> None:
        """Close the idle connections now, and each of the others when it is returned."""
        with self._lock:
            self._closed = True
            self.close_idle()

    # Fork

    def hold(self, until: float) -> bool:
        """Block new reads and wait for the running ones; return whether all have ended.

        After True no reader is in use until `resume`.
        """
        if not self._lock.acquire(timeout=max(0.0, until - time.monotonic())):
            return False
        self._held = True
        if threading.get_ident() not in self._users() and self._changed.wait_for(
            lambda: not self._users(), max(0.0, until - time.monotonic())
        ):
            return True
        self.resume()
        return False

    def resume(self) -> None:
        """End a `hold` that returned True."""
        self._held = False
        self._changed.notify_all()
        self._lock.release()

    def _users(self) -> set[int]:
        """Return the threads that are reading."""
        return {thread for reader, thread in self._busy.values() if reader() is not None}

    def forget_after_fork(self) -> tuple[list[apsw.Connection], list[apsw.Connection]]:
        """Forget every connection without closing it, in a forked process.

        Returns those that the calling thread uses, and all others.
        """
        # A thread that does not exist here may hold the lock.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        me = threading.get_ident()
        mine: list[apsw.Connection] = []
        others: list[apsw.Connection] = []
        in_use = [(reader(), thread == me) for reader, thread in self._busy.values()]
        for reader, is_mine in [*in_use, *((reader, False) for reader in self._idle)]:
            if reader is not None and reader.connection is not None:
                (mine if is_mine else others).append(reader.connection)
                reader.connection = None
        self._idle.clear()
        return mine, others


def _at_rest(connection: apsw.Connection | None) -> bool:
    """End the connection's transaction; return whether it can be reused."""
    if connection is None:
        return False
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except apsw.Error:
        return False
    # A statement that was not read to its end survives the rollback, and keeps its snapshot.
    return connection.txn_state("main") == apsw.SQLITE_TXN_NONE
