"""The connections that reads borrow: each read has one to itself, so none waits for another."""

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

# One read: a connection on loan inside a transaction. (Classes: every read pays for them.)


class ReadConnection:
    """Lends a connection that sees one state of the database."""

    __slots__ = ("_explain", "_keep", "_patience", "_reader", "_readers")

    def __init__(
        self,
        readers: ReaderPool,
        patience: float,
        *,
        keep: bool,
        explain: Callable[[apsw.Error], StoreError],
    ) -> None:
        """*explain* turns the driver's errors into ours; *keep* as in `ReaderPool.give_back`."""
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
    """Gives the statements of one read."""

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


#: Connections that stay open for the next read.
KEPT_IDLE: Final = 8


class PooledReader:
    """A connection for one read at a time, and how long that read may wait for a lock."""

    __slots__ = ("__weakref__", "connection", "deadline", "is_outdated")

    def __init__(self) -> None:
        self.deadline = Deadline()
        self.connection: apsw.Connection | None = None
        #: Whether the next one is to be opened in another way.
        self.is_outdated = False


class ReaderPool:
    """Lends connections for reading, and keeps some of them open for the next read."""

    def __init__(
        self,
        connect: Callable[[Deadline], apsw.Connection],
        on_late_close: Callable[[], None] = lambda: None,
    ) -> None:
        """*on_late_close* is called when a connection was closed after `close`."""
        self._connect = connect
        self._on_late_close = on_late_close
        # Reentrant, because a collected generator may give its reader back at any allocation,
        # also at one inside this class.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._idle: list[PooledReader] = []
        #: By which thread, because one that reads cannot wait for its own read to end. Weak: a
        #: reader that an interrupt kept from being given back is closed when it is forgotten.
        self._busy: dict[int, tuple[weakref.ref[PooledReader], int]] = {}
        self._closed = False
        self._held = False

    def add(self, connection: apsw.Connection, deadline: Deadline) -> None:
        """Lend this connection, too; *deadline* is what its busy handler asks."""
        reader = PooledReader()
        reader.connection, reader.deadline = connection, deadline
        with self._lock:
            self._idle.append(reader)

    def borrow(self, patience: float) -> tuple[PooledReader, apsw.Connection]:
        """Return a reader for the calling thread; it may wait for a lock for *patience* seconds."""
        me = threading.get_ident()
        with self._lock:
            if self._held and me not in self._users():
                self._changed.wait_for(lambda: not self._held, patience)
            reader = self._idle.pop() if self._idle else PooledReader()
            # Noted before anything is opened, so that a fork never misses a connection.
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
        """End whatever the reader was used for, and *keep* its connection if there is room."""
        usable = False
        try:
            usable = keep and _at_rest(reader.connection)
        finally:
            with self._lock:
                # Asked under the lock: `renew` may come while the connection is put to rest.
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
        """Close the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
            for reader in idle:
                if reader.connection is not None:
                    reader.connection.close(True)

    def renew(self) -> None:
        """Use no connection again that is open now: how they are opened has changed."""
        with self._lock:
            self.close_idle()
            for known, _ in self._busy.values():
                reader = known()
                if reader is not None:
                    reader.is_outdated = True

    def close(self) -> None:
        """Close the idle connections now, and each of the others when it is given back."""
        with self._lock:
            self._closed = True
            self.close_idle()

    # ── fork ──────────────────────────────────────────────────────────────────────────────────

    def hold(self, until: float) -> bool:
        """Keep new reads waiting and wait for the running ones; return whether all have ended.

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
        """Return the threads that read."""
        return {thread for reader, thread in self._busy.values() if reader() is not None}

    def forget_after_fork(self) -> tuple[list[apsw.Connection], list[apsw.Connection]]:
        """Forget every connection without closing it, in a forked process.

        Returns those that the calling thread uses, and all others.
        """
        # A thread that is not here may hold the lock.
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
    """End the connection's transaction; return whether it can be used again."""
    if connection is None:
        return False
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except apsw.Error:
        return False
    # A statement that somebody has not read to its end outlives the rollback, and with it the
    # state of the database that it sees.
    return connection.txn_state("main") == apsw.SQLITE_TXN_NONE
