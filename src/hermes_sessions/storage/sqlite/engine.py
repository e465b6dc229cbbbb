"""The engine of one SQLite file in one process, shared by all handles on it.

One writer connection, used by one thread at a time in transactions that begin with the write lock;
readers on connections of their own, which never wait for a writer. Other processes are met at the
gate (fairness) and at SQLite's lock (safety).

``fork()``: SQLite's locks do not survive it. Before a fork the engine closes its connections, so
parent and child each open fresh ones at next use. If a connection was in use at that moment, the
child refuses the store instead of working without locks.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import apsw

from hermes_sessions.errors import (
    HermesSessionsError,
    StoreClosed,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
)
from hermes_sessions.storage.sqlite.checkpoint import Checkpointer
from hermes_sessions.storage.sqlite.connection import Deadline, Options, open_connection
from hermes_sessions.storage.sqlite.failures import translate, translated
from hermes_sessions.storage.sqlite.gate import Gate
from hermes_sessions.storage.sqlite.location import lock_holders
from hermes_sessions.storage.sqlite.transaction import ApswTransaction

logger = logging.getLogger(__name__)
T = TypeVar("T")

MEMORY: Final = ":memory:"
_IDLE_READERS: Final = 8
_FORK_PATIENCE: Final = 5.0


class Engine:
    """Connections to one file; see the module for the rules."""

    def __init__(
        self, path: str, options: Options, *, gated: bool = True, immutable: bool = False
    ) -> None:
        self.path = path
        self.options = options
        self._immutable = immutable
        self._gate = Gate(f"{path}.gate" if gated and path != MEMORY else None)
        self._inode = None if path == MEMORY else _inode(path)
        #: How many providers of this process use the engine; kept by them.
        self.handles = 0
        self._closed = False
        self._unusable: str | None = None
        self._reset()

    def _reset(self) -> None:
        """Set what a forked child must not share with its parent."""
        self._write_lock: threading.Lock | threading.RLock = (
            threading.RLock() if self.path == MEMORY else threading.Lock()
        )
        self._writing_thread: int | None = None
        self._write_deadline = Deadline()
        self._writer: apsw.Connection | None = None
        self._readers_lock = threading.Lock()
        self._idle_readers: list[tuple[apsw.Connection, Deadline]] = []
        self._busy_readers = 0
        self._checkpointer = Checkpointer(self._connect_checkpointer, self._checkpoint_turn)

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def read(self) -> Iterator[ApswTransaction]:
        """See `SessionDBProvider.read`."""
        with self.reading_connection() as connection:
            yield ApswTransaction(connection)

    @contextmanager
    def reading_connection(self) -> Iterator[apsw.Connection]:
        """Lend a connection that sees one state of the database and cannot write."""
        self._check_usable()
        if self.path == MEMORY:
            with self._write_lock, translated(self.path):
                yield self._writer_connection()
            return
        with translated(self.path):
            connection, deadline = self._borrow_reader()
            try:
                deadline.start(self.options.lock_timeout)
                connection.execute("BEGIN")
                yield connection
            finally:
                self._return_reader(connection, deadline)

    def _borrow_reader(self) -> tuple[apsw.Connection, Deadline]:
        with self._readers_lock:
            self._busy_readers += 1
            if self._idle_readers:
                return self._idle_readers.pop()
        deadline = Deadline()
        deadline.start(self.options.lock_timeout)
        try:
            connection = open_connection(
                self.path, self.options, deadline, query_only=True, immutable=self._immutable
            )
        except BaseException:
            with self._readers_lock:
                self._busy_readers -= 1
            raise
        return connection, deadline

    def _return_reader(self, connection: apsw.Connection, deadline: Deadline) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except apsw.Error:
            connection.close(True)
            with self._readers_lock:
                self._busy_readers -= 1
            return
        with self._readers_lock:
            self._busy_readers -= 1
            keep = not self._closed and len(self._idle_readers) < _IDLE_READERS
            if keep:
                self._idle_readers.append((connection, deadline))
        if not keep:
            connection.close(True)

    # ── writing ───────────────────────────────────────────────────────────────────────────────

    def write(self, work: Callable[[ApswTransaction], T]) -> T:
        """See `SessionDBProvider.write`."""
        return self.write_on_connection(lambda connection: work(ApswTransaction(connection)))

    def write_on_connection(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run *work* in one transaction on the writer connection itself."""
        with self.writer() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return result

    @contextmanager
    def writer(self) -> Iterator[apsw.Connection]:
        """Lend the writer connection, outside any transaction, to one thread with a turn.

        Raises:
            StoreLocked: threads or processes held the store for longer than the lock timeout.
        """
        self._check_usable()
        if self.options.read_only:
            raise StoreReadOnly(
                f"{self.path}: attempt to write a readonly database. This handle was opened with "
                f"read_only, or the file or its directory cannot be written."
            )
        deadline = self._write_deadline
        self._lock_thread()
        try:
            self._check_identity()
            deadline.start(self.options.lock_timeout)
            turn = self._gate.enter(deadline.at)
            try:
                yield self._writer_connection()
            except apsw.BusyError as error:
                raise self._locked_error() from error
            except apsw.Error as error:
                raise translate(error, self.path) from error
            finally:
                if turn:
                    self._gate.leave()
        finally:
            self._writing_thread = None
            self._write_lock.release()

    def _lock_thread(self) -> None:
        me = threading.get_ident()
        if self._writing_thread == me and self.path != MEMORY:
            raise StoreLocked(
                f"{self.path}: this thread is already inside a write transaction. Finish it first."
            )
        if not self._write_lock.acquire(timeout=self.options.lock_timeout):
            raise StoreLocked(
                f"{self.path}: database is locked: another thread of this process has been "
                f"writing for {self.options.lock_timeout:g} s."
            )
        self._writing_thread = me

    def _locked_error(self) -> StoreLocked:
        holders = ", ".join(lock_holders(Path(self.path)))
        return StoreLocked(
            f"{self.path}: database is locked. Waited {self.options.lock_timeout:g} s for "
            f"{holders or 'another process'}. End it or let it finish, then try again."
        )

    def _writer_connection(self) -> apsw.Connection:
        if self._writer is None:
            self._writer = open_connection(
                self.path, self.options, self._write_deadline, query_only=False
            )
            if self.path != MEMORY:
                self._writer.set_wal_hook(self._after_commit)
        return self._writer

    def _after_commit(self, connection: apsw.Connection, database: str, pages: int) -> int:
        return self._checkpointer.after_commit(connection, database, pages)

    # ── life ──────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Close every connection; those in use are closed by their users."""
        self._closed = True
        self._checkpointer.stop()
        with self._write_lock:
            self._close_idle()
        self._gate.close()

    def _close_idle(self) -> None:
        with self._readers_lock:
            readers, self._idle_readers = self._idle_readers, []
        for connection, _ in readers:
            connection.close(True)
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close(True)

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreClosed(f"{self.path}: Cannot operate on a closed database. Open a new one.")
        if self._unusable is not None:
            raise StoreUnavailable(self._unusable)

    def make_durable(self) -> None:
        """Raise the durability to full: the strictest of all handles on a file counts."""
        if self.options.durability == "full":
            return
        self.options = replace(self.options, durability="full")
        with self._write_lock:
            if self._writer is not None:
                self._writer.pragma("synchronous", "FULL")

    def same_file(self) -> bool:
        """Return whether the path still leads to the file this engine has open."""
        return self.path == MEMORY or _inode(self.path) == self._inode

    def _check_identity(self) -> None:
        if not self.same_file():
            raise StoreUnavailable(
                f"{self.path} was removed or replaced while it was open; nothing was written to "
                f"the old file. Close this handle and open the store again."
            )

    def _connect_checkpointer(self) -> apsw.Connection:
        deadline = Deadline()
        return open_connection(self.path, self.options, deadline, query_only=False)

    @contextmanager
    def _checkpoint_turn(self) -> Iterator[None]:
        try:
            with self.writer():
                yield
        except HermesSessionsError as error:
            # Somebody else is writing for long, or the store is going away: the log can wait.
            logger.debug("no turn for a checkpoint: %s", error)

    # ── fork ──────────────────────────────────────────────────────────────────────────────────

    def before_fork(self) -> None:
        """Close what can be closed, and hold the locks until the fork has happened."""
        if self.path == MEMORY:
            return
        self._checkpointer.stop()
        self._fork_has_lock = self._writing_thread != threading.get_ident() and (
            self._write_lock.acquire(timeout=_FORK_PATIENCE)
        )
        if self._fork_has_lock:
            self._close_idle()

    def after_fork_in_parent(self) -> None:
        """Go on; connections open again at next use."""
        if self.path == MEMORY:
            return
        self._checkpointer = Checkpointer(self._connect_checkpointer, self._checkpoint_turn)
        if self._fork_has_lock:
            self._write_lock.release()

    def after_fork_in_child(self) -> None:
        """Start with nothing inherited, or refuse."""
        if self.path == MEMORY:
            return
        if not self._fork_has_lock or self._busy_readers:
            self._unusable = (
                f"{self.path} was being used at the moment of a fork, so this child process "
                f"cannot lock it. Open the store in a process started afterwards, or fork while "
                f"it is idle."
            )
            # Closing them here would act on files the parent still works with.
            _inherited.append((self._writer, self._idle_readers))
        self._gate.close()
        self._reset()


_inherited: list[object] = []


def _inode(path: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
