"""The engine of one SQLite file in one process, shared by all handles on it.

One writer connection, used by one thread at a time in transactions that begin with the write lock;
readers on their own connections, which never wait for a writer. Other processes are coordinated by
the gate (fairness) and by SQLite's lock (safety).

``fork()``: SQLite's locks do not survive it. Before a fork the engine closes its connections, so
that parent and child each open fresh ones at next use. If a connection was in use at that moment,
the child refuses the store instead of working without locks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import apsw

from hermes_sessions.errors import (
    StoreClosed,
    StoreError,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
)
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import FileUpgrade
from hermes_sessions.storage.sqlite.checkpoint import Checkpointer, restart_wal
from hermes_sessions.storage.sqlite.connection import (
    Deadline,
    SQLiteOptions,
    connections_to,
    open_connection,
    set_durability,
)
from hermes_sessions.storage.sqlite.error_translation import translate
from hermes_sessions.storage.sqlite.file_access import lock_holders
from hermes_sessions.storage.sqlite.file_identity import (
    FileIdentity,
    LogRemoved,
    WalIdentity,
    count_removed_log,
)
from hermes_sessions.storage.sqlite.fork_safety import (
    abandon_connections,
    drop_inherited_locks,
    forked_while_in_use,
)
from hermes_sessions.storage.sqlite.ofd_locks import install
from hermes_sessions.storage.sqlite.reader_pool import (
    KEPT_IDLE,
    ReadConnection,
    ReadContext,
    ReaderPool,
)
from hermes_sessions.storage.sqlite.transaction import ApswTransaction
from hermes_sessions.storage.sqlite.wal_guard import WalGuard, has_neighbour
from hermes_sessions.storage.sqlite.writer_gate import WriterGate

if TYPE_CHECKING:
    from hermes_sessions.storage.sqlite.sqlite3_lock import Sqlite3Lock

T = TypeVar("T")

MEMORY: Final = ":memory:"
#: How often a waiting checkpoint checks whether it is still needed, and how long it waits for other
#: processes.
_TURN_SLICE: Final = 0.05
_TURN_PATIENCE: Final = 0.5
#: How long a store whose log was removed waits for running reads before it reopens.
_RESTART_PATIENCE: Final = 1.0
#: Seconds between two checks of a connection that another thread uses.
_BUSY_PAUSE: Final = 0.001

logger = Logger(__name__)


class SQLiteEngine:
    """Connections to one file; see the module for the rules."""

    def __init__(
        self, path: str, options: SQLiteOptions, *, gated: bool = True, immutable: bool = False
    ) -> None:
        """*gated* says whether writers take turns at a gate beside the file; *immutable* that the
        file is read without locks, because its directory has no room for them.
        """
        self.path = path
        self.options = options
        #: Number of providers of this process that use the engine; maintained by them.
        self.handles = 0
        #: Set if opening the file upgraded it.
        self.upgraded: FileUpgrade | None = None
        self._immutable = immutable
        self._gate = WriterGate(f"{path}.gate" if gated and path != MEMORY else None)
        self._identity = FileIdentity(None if path == MEMORY else path, immutable=immutable)
        has_log = path != MEMORY and options.journal == "wal" and not immutable
        self._guard = WalGuard(path) if has_log else None
        self._log = WalIdentity(path) if has_log else None
        self._sqlite3_lock: Sqlite3Lock | None = None
        self._closed = False
        self._unusable: str | None = None
        self._write_lock: threading.Lock | threading.RLock = (
            threading.RLock() if path == MEMORY else threading.Lock()
        )
        self._writing_thread: int | None = None
        self._write_deadline = Deadline()
        self._writer: apsw.Connection | None = None
        self._writer_durability = options.durability
        self._writer_cache_kib = options.cache_kib
        #: Number of blocks that require deleted data to be overwritten.
        self._overwriting = 0
        self._overwriting_lock = threading.Lock()
        self._writer_overwrites = False
        self._readers = ReaderPool(self._connect_reader, self._leave)
        self._checkpointer = self._new_checkpointer()
        self._paused_for_fork = False

    # Reading

    def read(self, lock_timeout: float | None = None) -> AbstractContextManager[ApswTransaction]:
        """See `SessionDBProvider.read`."""
        return ReadContext(self.reading_connection(lock_timeout))

    def reading_connection(
        self, lock_timeout: float | None = None, *, keep: bool = True
    ) -> AbstractContextManager[apsw.Connection]:
        """Lend a connection that sees one snapshot of the database and cannot write.

        Without *keep* it is closed afterwards.
        """
        if self.path == MEMORY:
            return self._reading_memory()
        self._check_usable()
        self._check_identity()
        patience = lock_timeout or self.options.lock_timeout
        reading = ReadConnection(self._readers, patience, keep=keep, explain=self._our_error)
        if self._sqlite3_lock is not None:
            return self._read_under_sqlite3_lock(self._sqlite3_lock, reading, patience)
        return reading

    @contextmanager
    def _read_under_sqlite3_lock(
        self, shield: Sqlite3Lock, reading: ReadConnection, patience: float
    ) -> Iterator[apsw.Connection]:
        # Borrowed first: the lock of the other library is not engaged while a reader is out. (The
        # first statement takes the first lock.)
        with reading as connection, shield.held(patience):
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _reading_memory(self) -> Iterator[apsw.Connection]:
        self._check_usable()
        with self._write_lock:
            self._check_usable()  # It may have been closed during the wait.
            try:
                yield self._writer_connection()
            except apsw.Error as error:
                raise self._our_error(error) from error

    def start(self, connection: apsw.Connection, deadline: Deadline) -> None:
        """Adopt an idle connection that has the options of this engine.

        Raises:
            apsw.BusyError: other programs held an exclusive lock until the deadline.
        """
        self._protect(connection, deadline)
        connection.pragma("query_only", "ON")
        self._readers.add(connection, deadline)

    def _connect_reader(self, deadline: Deadline) -> apsw.Connection:
        connection = open_connection(
            self.path, self.options, deadline, query_only=True, immutable=self._immutable
        )
        self._protect(connection, deadline)
        return connection

    def _protect(self, connection: apsw.Connection, deadline: Deadline) -> None:
        """Protect the log of the first connection from removal."""
        if self._guard is None or self._log is None or self._closed:
            return
        try:
            if not self._guard.is_held:
                self._guard.hold(deadline)
            if not self._log.is_known and not self.options.read_only:
                connection.pragma("schema_version")  # Opens the log.
                self._log.remember()
        except BaseException:
            connection.close(True)
            raise

    # Writing

    def write(self, work: Callable[[ApswTransaction], T], lock_timeout: float | None = None) -> T:
        """See `SessionDBProvider.write`."""

        def on_connection(connection: apsw.Connection) -> T:
            return work(ApswTransaction(connection))

        try:
            return self.write_on_connection(on_connection, lock_timeout)
        except LogRemoved:
            # Nothing of it happened, so it is repeated on fresh connections.
            return self.write_on_connection(on_connection, lock_timeout)

    def write_on_connection(
        self, work: Callable[[apsw.Connection], T], lock_timeout: float | None = None
    ) -> T:
        """Run *work* in one transaction directly on the writer connection.

        Raises:
            LogRemoved: the log was removed before the commit; the next write has a new one.
            StoreUnavailable: it was removed during the commit, so the outcome is unknown.
        """
        patience = lock_timeout or self.options.lock_timeout

        def in_a_transaction(connection: apsw.Connection) -> T:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                if self._log is not None and not self._log.is_unchanged():
                    raise LogRemoved(
                        f"The write was not stored: {self._log.description}. Try again."
                    )
                # With a rollback journal, the commit waits for the last reader.
                self._write_deadline.start(patience)
                connection.execute("COMMIT")
                if self._log is not None and not self._has_its_log():
                    raise StoreUnavailable(
                        f"It is not known whether the write was stored: {self._log.description}. "
                        f"Repeating it with the same external_id is safe; without one, check "
                        f"before you repeat it."
                    )
            except BaseException as error:
                # A connection on which this fails is not reused.
                with suppress(apsw.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    if isinstance(error, apsw.IOError):
                        _overwrite_failed_commit(connection)
                raise
            return result

        return self.with_writer(in_a_transaction, patience)

    def with_writer(
        self, use: Callable[[apsw.Connection], T], lock_timeout: float | None = None
    ) -> T:
        """Lend the writer connection to *use*, outside any transaction, in a writer's turn.

        *lock_timeout* bounds the wait for threads, gate and lock together.

        Raises:
            StoreLocked: threads or processes held the store for longer than the lock timeout.
        """
        self._check_usable()
        if self.options.read_only:
            raise StoreReadOnly(
                f"{self.path}: attempt to write a readonly database. This handle was opened with "
                f"read_only, or the file or its directory cannot be written."
            )
        me = threading.get_ident()
        if self._writing_thread == me:
            raise StoreLocked(
                f"{self.path}: this thread is already inside a write transaction. Finish it first."
            )
        patience = lock_timeout or self.options.lock_timeout
        until = time.monotonic() + patience
        is_locked = False
        try:
            [is_locked] = _acquiring(self._write_lock, patience)
            if not is_locked:
                raise StoreLocked(
                    f"{self.path}: database is locked: another thread of this process has been "
                    f"writing for {patience:g} s."
                )
            self._writing_thread = me
            return self._use_writer(use, patience, until)
        finally:
            if is_locked:
                self._writing_thread = None
                self._write_lock.release()
                if self._closed:
                    self._close_writer_if_free()

    def _use_writer(self, use: Callable[[apsw.Connection], T], patience: float, until: float) -> T:
        # All of this may have changed during the wait.
        self._check_identity()
        self._write_deadline.at = until
        self._has_its_log()
        self._check_usable()
        try:
            self._check_writer()  # An interrupt may have prevented the last user from doing so.
            try:
                self._gate.enter(until)
                if self._sqlite3_lock is None:
                    return use(self._writer_connection())
                with self._sqlite3_lock.held(patience):
                    return use(self._writer_connection())
            finally:
                self._gate.leave()
                self._check_writer()
        except apsw.Error as error:
            raise self._our_error(error, patience) from error

    def reclaim(self, lock_timeout: float | None = None, *, patience: float | None = None) -> bool:
        """Rebuild the file without its free pages (VACUUM) and truncate the log."""

        def rebuild(connection: apsw.Connection) -> bool:
            self._checkpointer.is_suspended = True  # It would only interfere.
            try:
                # Files of older layouts gain incremental vacuum with their first VACUUM.
                connection.pragma("auto_vacuum", 2)
                connection.execute("VACUUM")
                # The new pages are in the log, and the file keeps its size until they are copied.
                # If a reader needs the old ones for longer, a later checkpoint does it.
                return self._truncate_wal(connection, patience)
            finally:
                self._checkpointer.is_suspended = False

        return self.with_writer(rebuild, lock_timeout)

    @contextmanager
    def overwriting(self) -> Iterator[None]:
        """Make writes in the block overwrite deleted data with zeros."""
        with self._overwriting_lock:
            self._overwriting += 1
        try:
            yield
        finally:
            with self._overwriting_lock:
                self._overwriting -= 1

    def truncate_wal(
        self, lock_timeout: float | None = None, *, patience: float | None = None
    ) -> bool:
        """Copy the log back and truncate its file; return False if a reader uses an older snapshot
        for longer than *patience*.
        """
        return self.with_writer(lambda writer: self._truncate_wal(writer, patience), lock_timeout)

    def _truncate_wal(self, connection: apsw.Connection, patience: float | None) -> bool:
        return restart_wal(
            connection, self._write_deadline, apsw.SQLITE_CHECKPOINT_TRUNCATE, patience=patience
        )

    def others_are_writing(self) -> bool:
        """See `SessionDBProvider.others_are_writing`."""
        is_locked = False
        try:
            [is_locked] = _acquiring(self._write_lock, 0.0)
            # Otherwise this process itself is writing.
            return is_locked and self._gate.is_crowded()
        finally:
            if is_locked:
                self._write_lock.release()

    def _writer_connection(self) -> apsw.Connection:
        if self._writer is None:
            self._writer_durability = self.options.durability
            self._writer_cache_kib = self.options.cache_kib
            writer = open_connection(
                self.path, self.options, self._write_deadline, query_only=False
            )
            self._protect(writer, self._write_deadline)
            self._writer = writer
            if self.path != MEMORY:
                self._writer.set_wal_hook(self._after_commit)
            self._writer_overwrites = False
        elif self._writer_durability != self.options.durability:
            self._writer_durability = self.options.durability
            set_durability(self._writer, self.options)
        if self._writer_cache_kib != self.options.cache_kib:
            self._writer_cache_kib = self.options.cache_kib
            self._writer.pragma("cache_size", -self._writer_cache_kib)
        if self._writer_overwrites != (self._overwriting > 0):
            self._writer_overwrites = not self._writer_overwrites
            self._writer.pragma("secure_delete", "ON" if self._writer_overwrites else "OFF")
        return self._writer

    def _check_writer(self) -> None:
        """Close a writer connection that is still inside a transaction: it would block the next
        one.

        A statement that was not read to its end keeps one open, too.
        """
        writer = self._writer
        if writer is None or self._unusable is not None:
            return
        if self.path == MEMORY:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
        elif writer.txn_state("main") != apsw.SQLITE_TXN_NONE:
            self._close_writer()

    def _after_commit(self, connection: apsw.Connection, _database: str, pages: int) -> int:
        self._checkpointer.after_commit(connection, self._write_deadline, pages)
        return apsw.SQLITE_OK

    # Errors

    def _our_error(self, error: apsw.Error, patience: float | None = None) -> StoreError:
        """Translate a driver error; *patience* is how long a writer waits, None for a reader."""
        if self._unusable is not None:
            return StoreUnavailable(self._unusable)
        if patience is None:
            return translate(error, self.path)
        if isinstance(error, apsw.BusyError):
            others = ", ".join(lock_holders(Path(self.path))) or "another process"
            return StoreLocked(
                f"{self.path}: database is locked. Waited {patience:g} s for {others}. "
                f"End it or let it finish, then try again."
            )
        return translate(error, self.path, self._writer)

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreClosed(f"{self.path}: Cannot operate on a closed database. Open a new one.")
        if self._unusable is not None:
            raise StoreUnavailable(self._unusable)

    def same_file(self) -> bool:
        """Return whether the path still leads to the file that this engine has open."""
        return self._identity.is_unchanged()

    def _check_identity(self) -> None:
        if not self._identity.is_unchanged():
            raise StoreUnavailable(self._identity.error_message)

    def _has_its_log(self) -> bool:
        """Return whether writes go into the log that others read.

        Called with the write lock. If not, all connections are reopened and the store counts the
        event. If some are in use and cannot be replaced, the engine becomes unusable.
        """
        if self._log is None or self._log.is_unchanged():
            return True
        if not connections_to(self.path):
            self._log.forget()
            return True
        logger.warning("%s. The store continues with a new one.", self._log.description)
        self._keep_log_out()
        if self._pause(time.monotonic() + _RESTART_PATIENCE):
            self._checkpointer = self._new_checkpointer()
            self._readers.resume()
        if connections_to(self.path):
            self._unusable = self._log.blocked_by_readers
            return False
        try:
            count_removed_log(self._writer_connection())
        except apsw.Error as error:
            logger.warning("%s: this could not be recorded for the doctor: %s", self.path, error)
        return False

    def _keep_log_out(self) -> None:
        """Prevent all connections of this process from copying a log that is no longer the file's.

        A connection that stays busy in another thread keeps its setting. As long as the guard is
        held, none of them is the last connection, which would copy.
        """
        until = time.monotonic() + _RESTART_PATIENCE
        for connection in connections_to(self.path):
            while True:
                try:
                    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                    break
                except apsw.ConnectionClosedError:
                    break
                except apsw.ThreadingViolationError:
                    if time.monotonic() >= until:
                        break
                    time.sleep(_BUSY_PAUSE)

    @property
    def inode(self) -> tuple[int, ...] | None:
        """The identity of the file, independent of its name; None in memory."""
        return self._identity.inode

    # Lifetime

    def close(self) -> None:
        """Close every connection; those in use are closed by their users."""
        self._closed = True
        if self._guard is not None and self._log is not None:
            if not self._log.is_unchanged():
                self._keep_log_out()
            self._guard.yield_lock()
        self._readers.close()
        self._checkpointer.stop()
        self._close_writer_if_free()

    def _leave(self) -> None:
        if self._guard is not None:
            self._guard.close()

    def has_neighbour(self) -> bool:
        """Return whether another copy of SQLite in this process has the store open.

        Closing our connections would then drop the other's locks.
        """
        if self._sqlite3_lock is not None and self._sqlite3_lock.is_engaged:
            return True
        return self._guard is not None and has_neighbour(self.path)

    def watch_for_neighbours(self) -> None:
        """Exclude Python's SQLite library where file locks cannot do that.

        Raises:
            StoreLocked: that library has the store open and uses it.
        """
        inode = self.inode
        if inode is None or self._immutable or (self._guard is not None and install()):
            return
        from hermes_sessions.storage.sqlite.sqlite3_lock import Sqlite3Lock  # Rarely needed.

        self._sqlite3_lock = Sqlite3Lock(self.path, inode, self._engage_sqlite3_lock)
        self._sqlite3_lock.watch()

    def _engage_sqlite3_lock(self) -> None:
        """Admit the other library, with no operation of ours in progress."""
        if self._closed or self._unusable is not None or self._sqlite3_lock is None:
            return
        until = time.monotonic() + self.options.lock_timeout
        is_locked = False
        try:
            if self._writing_thread != threading.get_ident():
                [is_locked] = _acquiring(self._write_lock, _seconds_until(until))
            if not is_locked or not self._readers.hold(until):
                raise StoreLocked(
                    f"{self.path}: database is locked: this process is using it. "
                    f"Open it with another SQLite library afterwards."
                )
            try:
                if not self._sqlite3_lock.is_engaged:  # Another thread may have done it meanwhile.
                    self._share_with_sqlite3(self._sqlite3_lock, until)
            finally:
                self._readers.resume()
        finally:
            if is_locked:
                self._write_lock.release()

    def _share_with_sqlite3(self, shield: Sqlite3Lock, until: float) -> None:
        if self._log is not None and not self._log_is_ended(until):
            raise StoreLocked(
                f"{self.path}: database is locked: two SQLite libraries in one process can share "
                f"it here only while no other process has it open. Close it there, or use the "
                f"other library in a separate process."
            )
        shield.engage()

    def _log_is_ended(self, until: float) -> bool:
        """Switch the idle store to a rollback journal; return whether that was possible."""
        self._checkpointer.stop(_seconds_until(until))
        self._checkpointer = self._new_checkpointer()
        self._readers.close_idle()
        self._write_deadline.at = until
        try:
            if self._writer_connection().pragma("journal_mode", "delete") != "delete":
                return False
        except apsw.BusyError:
            return False
        self.options = self.options._replace(journal="delete")
        self._close_writer()  # The next one gets the durability for a rollback journal.
        self._log = self._guard = None
        return True

    def _close_writer_if_free(self) -> None:
        is_locked = False
        try:
            if self._writing_thread != threading.get_ident():
                [is_locked] = _acquiring(self._write_lock, 0.0)
            if is_locked:
                self._close_writer()
                self._gate.close()
        finally:
            if is_locked:
                self._write_lock.release()
        self._leave()

    def _close_writer(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close(True)

    def make_durable(self) -> None:
        """Raise the durability to full from the next write on: the strictest handle wins."""
        if self.options.durability != "full":
            self.options = self.options._replace(durability="full")

    def limit_memory(self, most_bytes: int) -> None:
        """Limit the total page cache of the open connections to *most_bytes*."""
        # Idle readers, one writer and one for checkpoints.
        share = most_bytes // 1024 // (KEPT_IDLE + 2)
        self.options = self.options._replace(cache_kib=max(1, share))
        self._readers.renew()

    def _new_checkpointer(self) -> Checkpointer:
        is_current = self._log.is_unchanged if self._log is not None else lambda: True
        return Checkpointer(self._connect_checkpointer, self._checkpoint_turn, is_current)

    def _connect_checkpointer(self, deadline: Deadline) -> apsw.Connection:
        return open_connection(self.path, self.options, deadline, query_only=False)

    @contextmanager
    def _checkpoint_turn(self, cancelled: Callable[[], bool]) -> Iterator[bool]:
        """Exclude the writers of this process, and those that take turns, from the block.

        Yields False without a long wait when *cancelled*: the canceller may hold the lock.
        """
        while not self._write_lock.acquire(timeout=_TURN_SLICE):
            if cancelled():
                yield False
                return
        try:
            self._gate.enter(time.monotonic() + _TURN_PATIENCE)
            yield not cancelled()
        finally:
            self._gate.leave()
            self._write_lock.release()

    # Fork

    def before_fork(self, until: float) -> None:
        """Close all connections before *until* if possible, and stay idle until the fork happened.

        An in-memory database keeps its connection, which is copied.
        """
        if self._writing_thread == threading.get_ident() or self.has_neighbour():
            return
        is_locked = False
        try:
            [is_locked] = _acquiring(self._write_lock, _seconds_until(until))
            self._paused_for_fork = is_locked and self._pause(until)
        finally:
            if is_locked and not self._paused_for_fork:
                self._write_lock.release()

    def _pause(self, until: float) -> bool:
        if self._readers.hold(until):
            if self._checkpointer.stop(_seconds_until(until)):
                if self.path != MEMORY:
                    self._readers.close_idle()
                    self._close_writer()
                if self._log is not None:
                    self._log.forget()
                return True
            self._readers.resume()
        return False

    def after_fork_in_parent(self) -> None:
        """Continue; connections are reopened at next use."""
        self._continue()

    def after_fork_in_child(self) -> bool:
        """Continue with nothing inherited; return False if that is impossible."""
        was_at_rest = self._paused_for_fork
        self._gate.close()
        if self._guard is not None:
            self._guard.forget()
        self._continue()
        if not was_at_rest:
            self.refuse()
        return was_at_rest

    def _continue(self) -> None:
        self._checkpointer = self._new_checkpointer()
        if self._paused_for_fork:
            self._paused_for_fork = False
            self._readers.resume()
            self._write_lock.release()

    def refuse(self) -> None:
        """Never touch the file again in this forked process: its locks are not ours."""
        self._unusable = forked_while_in_use(self.path)
        in_use, others = self._readers.forget_after_fork()
        if self._writer is not None:
            is_mine = self._writing_thread == threading.get_ident()
            (in_use if is_mine else others).append(self._writer)
            self._writer = None
        abandon_connections(others, in_use=in_use)
        if self._guard is not None:
            drop_inherited_locks(self.path)


def _acquiring(lock: threading.Lock | threading.RLock, timeout: float) -> Iterator[bool]:
    """Return an iterator that acquires the lock when unpacked: ``[is_locked] = _acquiring(lock,
    1.0)``.

    Ctrl-C may raise between any two steps. After a call took the lock and before its result is
    assigned, it would stay locked forever. There is no such gap within an unpacking, so a
    ``finally`` around it always knows whether to release the lock.
    """
    return map(lock.acquire, (True,), (timeout,))


def _overwrite_failed_commit(connection: apsw.Connection) -> None:
    """Overwrite a commit that failed at its last step.

    It is complete in the log, but may not be on disk. The next reader of the log, perhaps after a
    crash, would restore it although its caller was told that it failed.
    """
    if connection.pragma("journal_mode") == "wal":
        connection.execute("BEGIN IMMEDIATE")
        connection.pragma("user_version", connection.pragma("user_version"))
        connection.execute("COMMIT")


def _seconds_until(until: float) -> float:
    return max(0.0, until - time.monotonic())
