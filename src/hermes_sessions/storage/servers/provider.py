"""The base of server providers: lend connections, run units, resolve commits, append messages.

A provider adds its driver's connections, transactions, errors and statements. The steps here are
the same on every server, so that a lost connection has the same consequences on all of them; see
``docs/decisions/0010-servers.md``.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Final, Generic, TypeVar

from hermes_sessions.errors import (
    InvalidInput,
    StoreClosed,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
)
from hermes_sessions.storage.provider import (
    MigrationSteps,
    NewRow,
    ReadTransaction,
    SessionDBProvider,
    Space,
    WriteTransaction,
)
from hermes_sessions.storage.raw_sql import RawStatements
from hermes_sessions.storage.servers.driver import (
    ConnectionSource,
    DriverErrors,
    Mode,
    ServerOptions,
    ServerTransaction,
)
from hermes_sessions.storage.servers.migrations import (
    STEPS_TAKEN,
    WRITER_LEVEL,
    Migration,
    require_known_level,
    steps_of,
)
from hermes_sessions.storage.servers.response_timeouts import RESOLVE_SECONDS, time_limit
from hermes_sessions.storage.servers.sql_translation import ServerSyntax
from hermes_sessions.storage.servers.unit_of_work import (
    NEVER,
    CommitUnknown,
    CommitUnresolved,
    RetryUnit,
    UnitCollision,
    new_mark,
    run_unit,
)
from hermes_sessions.storage.tables import ALL_TABLES, SERVER_TABLES

logger = logging.getLogger(__name__)

T = TypeVar("T")
#: The type of a lent connection: the driver's, or a wrapper of it.
S = TypeVar("S")
C = TypeVar("C", bound=ConnectionSource)

OUR_TABLES: Final = [*(table.name for table in (*ALL_TABLES, *SERVER_TABLES)), "search_documents"]
#: Seconds after which the marks of ended units of work are deleted, and the number of units between
#: two deletions.
_MARKS_KEPT: Final = 3600.0
_UNITS_TO_CLEAN: Final = 1000
#: Sessions with another tip that are remembered.
_TIPS_KNOWN: Final = 10_000
#: Seconds that a statement waits for a commit whose connection is gone, before it asks again.
_RESOLVING_WAIT: Final = 1.0
#: Seconds that it waits for a connection to ask on.
_RESOLVING_PATIENCE: Final = 2.0
#: Seconds for removing old marks: the write before it is stored, and its caller waits.
_CLEANING_SECONDS: Final = 2.0
_MARK: Final = ("mark", "message_id", "marked_at")


class ServerProvider(SessionDBProvider, Generic[C, S]):
    """The base of providers for server databases; subclasses supply the driver's parts."""

    #: A server that does not answer would keep the indexer busy until all of its waits end.
    closing_seconds = 5.0
    _driver_errors: ClassVar[DriverErrors]
    _syntax: ClassVar[ServerSyntax]
    _options: ServerOptions

    def __init__(self) -> None:
        self._opened: C | None = None
        self._level = WRITER_LEVEL
        self._units = 0
        #: Known sessions that lists show by another tip; appending to them needs more statements.
        self._with_other_tip: set[str] = set()

    # ── provided by subclasses ────────────────────────────────────────────────────────────────

    @property
    @abstractmethod
    def _migrations(self) -> tuple[Migration, ...]: ...

    @abstractmethod
    def _borrow(self, connections: C, patience: float | None) -> S:
        """Return a connection outside any transaction.

        Raises:
            RetryUnit: the server does not answer now.
            StoreUnavailable: all connections are in use.
        """

    @abstractmethod
    def _transaction(
        self, connections: C, lent: S, mode: Mode, lock_wait: float | None
    ) -> ServerTransaction:
        """Return a new transaction, in which statements wait for rows for *lock_wait* seconds
        (None: as configured). May raise the driver's errors.
        """

    @abstractmethod
    def _append(
        self, connections: C, lent: S, row: NewRow, mark: str, *, tip_too: bool
    ) -> int | None:
        """Append a message and its mark in one transaction; return the message's id, or None if
        the session does not exist or has another fence.

        With *tip_too*, also update the last activity of the thread's tip. Without it, only
        sessions that meet `driver.HAS_NO_OTHER_TIP` are found. May raise errors of the driver.
        """

    @abstractmethod
    def _is_reset(self, connections: C, lent: S) -> bool:
        """Roll back any open transaction; return whether the connection can be used again."""

    @abstractmethod
    def _size(self, tx: ReadTransaction) -> int:
        """Return the size of the store's tables in bytes."""

    # ── opening and closing ───────────────────────────────────────────────────────────────────

    def _open(self, connections: C, make_current: Callable[[S], int]) -> None:
        """Use *connections*, after *make_current* has migrated the tables and returned the level
        that a writer must know. Closes them on failure.
        """
        try:
            lent = connections.acquire(self._options.lock_timeout)
            try:
                self._level = make_current(lent)
            except BaseException:
                connections.release(lent, keep=False)
                raise
            connections.release(lent)
        except self._driver_errors.base as error:
            connections.close()
            raise self._translated(error, connections) from error
        except BaseException:
            connections.close()
            raise
        self._opened = connections

    def _back_up_first(self, connections: C, taken: Collection[str]) -> None:
        """Back up the store, which has the migrations *taken*, before its tables change.

        The caller must hold the migration lock, so that only one process does it.
        """
        # Loaded late: only a migration needs it.
        from hermes_sessions.storage.migration_backup import BackupSource, back_up_before_migration
        from hermes_sessions.storage.transfer.copy_ledger import identity_of

        others: C = connections.beside()
        try:
            with self._reading(others) as tx:
                size = self._size(tx)
            schema = getattr(self._options, "schema", None)
            source = BackupSource(
                self.name,
                identity_of(self.name, connections.location, schema),
                tuple(sorted(taken)),
                size,
                lambda: self._reading(others),
                self.dialect.tables_query,
            )
            with back_up_before_migration(source, file=None, patience=self._options.lock_timeout):
                pass
        finally:
            if others is not connections:
                others.close()

    @property
    def _connections(self) -> C:
        if self._opened is None:
            raise StoreClosed("Cannot operate on a closed database. Open a new SessionDB.")
        return self._opened

    def close(self) -> None:
        """See `SessionDBProvider.close`."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @property
    def read_only(self) -> bool:
        """See `SessionDBProvider.read_only`."""
        _ = self._connections
        return self._options.read_only

    def _patience(self, connections: C, wanted: float | None = None) -> float:
        """Return the seconds during which a unit is retried: *wanted*, at most as configured."""
        usual = self._options.lock_timeout
        return max(0.0, min(wanted or usual, usual, connections.limits.seconds_left()))

    def limit_waits(self, seconds: float) -> AbstractContextManager[None]:
        """See `SessionDBProvider.limit_waits`."""
        return time_limit(seconds)

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """See `SessionDBProvider.read`."""
        return self._reading(self._connections)

    @contextmanager
    def _reading(self, connections: C) -> Iterator[ReadTransaction]:
        reach_by = _reach_by(connections)
        tx = run_unit(
            lambda: self._begin(connections, "reading", None, None, reach_by),
            nothing_to_resolve,
            patience=self._patience(connections),
        )
        is_whole = False
        try:
            yield tx
            is_whole = True
        except self._driver_errors.base as error:
            raise self._translated(error, connections) from error
        finally:
            connections.release(tx.lent, keep=tx.end("COMMIT" if is_whole else "ROLLBACK"))

    def _begin(
        self,
        connections: C,
        mode: Mode,
        patience: float | None,
        lock_wait: float | None,
        reach_by: float,
    ) -> ServerTransaction:
        """Return a transaction on a connection that was waited for with *patience*, and at most
        until *reach_by*, which all attempts of a unit share.

        Raises:
            RetryUnit: the connection was stale, or the server does not answer now.
        """
        with time_limit(reach_by - time.monotonic()):
            lent = self._borrow(connections, patience)
        try:
            return self._transaction(connections, lent, mode, lock_wait)
        except self._driver_errors.base as error:
            failed = self._failed(error, connections, lent, None)
            connections.release(lent, keep=False)
            raise failed from error
        except BaseException:
            connections.release(lent, keep=False)
            raise

    # ── writing ───────────────────────────────────────────────────────────────────────────────

    def write(
        self,
        work: Callable[[WriteTransaction], T],
        *,
        patience: float | None = None,
        isolated: bool = True,
    ) -> T:
        """See `SessionDBProvider.write`."""
        connections = self._writable()
        patience = self._patience(connections, patience)
        mode: Mode = "isolated" if isolated else "by row locks"
        reach_by = _reach_by(connections)
        result: T = run_unit(
            lambda: self._attempt(connections, work, mode, patience, reach_by),
            lambda lost: self._resolve(connections, lost),
            patience=patience,
        )
        self._clean_sometimes()
        return result

    def _writable(self) -> C:
        connections = self._connections
        if self._options.read_only:
            raise StoreReadOnly(
                f"{connections.location}: attempt to write a readonly database. This handle was "
                f"opened with read_only: open another one to write."
            )
        require_known_level(self._level)
        return connections

    def _attempt(
        self,
        connections: C,
        work: Callable[[WriteTransaction], T],
        mode: Mode,
        patience: float,
        reach_by: float,
    ) -> T:
        tx = self._begin(connections, mode, patience, patience, reach_by)
        mark = new_mark()
        is_committing = is_clean = False
        result: T | None = None
        try:
            result = work(tx)
            is_committing = True
            tx.commit(mark)
            is_clean = True
        except self._driver_errors.base as error:
            unknown = CommitUnknown(mark, result) if is_committing else None
            if self._driver_errors.is_collision(error):
                raise UnitCollision(self._translated(error, connections)) from error
            raise self._failed(error, connections, tx.lent, unknown) from error
        finally:
            connections.release(tx.lent, keep=is_clean or tx.end("ROLLBACK"))
        return result

    def append_one(self, row: NewRow) -> int | None:
        """See `SessionDBProvider.append_one`."""
        connections = self._writable()
        reach_by = _reach_by(connections)
        result: int | None = run_unit(
            lambda: self._attempt_append(connections, row, reach_by),
            lambda lost: self._resolve(connections, lost),
            patience=self._patience(connections),
        )
        self._clean_sometimes()
        return result

    def _attempt_append(self, connections: C, row: NewRow, reach_by: float) -> int | None:
        if row.session_id not in self._with_other_tip:
            number = self._attempt_append_to(connections, row, reach_by, tip_too=False)
            if number is not None:
                return number
        number = self._attempt_append_to(connections, row, reach_by, tip_too=True)
        if number is not None:
            if len(self._with_other_tip) >= _TIPS_KNOWN:
                self._with_other_tip.clear()
            self._with_other_tip.add(row.session_id)
        return number

    def _attempt_append_to(
        self, connections: C, row: NewRow, reach_by: float, *, tip_too: bool
    ) -> int | None:
        with time_limit(reach_by - time.monotonic()):
            lent = self._borrow(connections, None)
        mark = new_mark()
        number: int | None = None
        try:
            number = self._append(connections, lent, row, mark, tip_too=tip_too)
        except self._driver_errors.base as error:
            unknown = CommitUnknown(mark, None)
            raise self._failed(error, connections, lent, unknown) from error
        finally:
            connections.release(lent, keep=number is not None or self._is_reset(connections, lent))
        return number

    # ── errors ────────────────────────────────────────────────────────────────────────────────

    def _translated(self, error: Exception, connections: C) -> StoreError:
        return self._driver_errors.translate(error, connections.location)

    def _failed(
        self, error: Exception, connections: C, lent: S, unknown: CommitUnknown | None
    ) -> Exception:
        """Return the exception for the driver's error; *unknown* if a commit had been sent."""
        ours = self._translated(error, connections)
        if self._driver_errors.is_retryable(error):
            # Nothing was stored, even if the connection was lost since.
            return RetryUnit(ours)
        if self._driver_errors.is_connection_lost(error, lent):
            return unknown or RetryUnit(ours)
        return ours

    def _exhausted(self, connections: C) -> StoreUnavailable:
        return StoreUnavailable(
            f"{connections.location}: all {self._options.max_connections} connections are in use. "
            f"Raise sessiondb.{self.name}.max_connections, or use fewer threads."
        )

    def _resolve(self, connections: C, lost: CommitUnknown) -> Any:
        """Return the result of a unit whose commit got no answer, if it happened.

        Raises:
            RetryUnit: it did not happen and never will, because this call has set its mark.
        """
        with time_limit(RESOLVE_SECONDS):
            return self._resolve_now(connections, lost)

    def _resolve_now(self, connections: C, lost: CommitUnknown) -> Any:
        try:
            tx = self._begin(
                connections,
                "by row locks",
                _RESOLVING_PATIENCE,
                _RESOLVING_WAIT,
                _reach_by(connections),
            )
        except RetryUnit as again:
            raise CommitUnresolved(again.error) from again
        except StoreUnavailable as error:
            raise CommitUnresolved(error) from error
        is_clean = False
        try:
            # Waits for the end of a commit in flight. An existing mark is not changed.
            tx.run(
                self.dialect.upsert("write_marks", _MARK, ("mark",), update=("mark",)),
                (lost.mark, NEVER, time.time()),
            )
            found = tx.one("SELECT message_id FROM write_marks WHERE mark = ?", (lost.mark,))
            tx.commit(lost.mark, is_noted=True)
            is_clean = True
        except self._driver_errors.base as error:
            raise CommitUnresolved(self._translated(error, connections)) from error
        finally:
            connections.release(tx.lent, keep=is_clean or tx.end("ROLLBACK"))
        [message_id] = found or (NEVER,)
        if message_id == NEVER:
            raise RetryUnit(
                StoreUnavailable(
                    f"{connections.location}: the connection was lost, and nothing was written. "
                    f"Try again."
                )
            )
        return lost.result if message_id is None else int(message_id)

    def _clean_sometimes(self) -> None:
        self._units += 1
        if self._units % _UNITS_TO_CLEAN:
            return
        before = time.time() - _MARKS_KEPT
        try:
            with time_limit(_CLEANING_SECONDS):
                self.write(
                    lambda tx: tx.run("DELETE FROM write_marks WHERE marked_at < ?", (before,)),
                    patience=0.1,
                    isolated=False,
                )
        except StoreError as error:
            logger.info("old marks of commits stay a little longer: %s", error)

    # ── the rest ──────────────────────────────────────────────────────────────────────────────

    def size_bytes(self) -> int:
        """See `SessionDBProvider.size_bytes`; as the server reports it."""
        with self.read() as tx:
            return self._size(tx)

    def space(self, has_time: Callable[[], bool] | None = None) -> Space:
        """See `SessionDBProvider.space`; the server reports it at once."""
        del has_time
        with self.read() as tx:
            return self._space(tx)

    def _space(self, tx: ReadTransaction) -> Space:  # noqa: ARG002 - for subclasses
        return Space()

    def require_level(self, tx: WriteTransaction, step: str, level: int) -> None:
        """See `SessionDBProvider.require_level`."""
        columns = ("name", "applied_at", "writer_level")
        upsert = self.dialect.upsert("store_migrations", columns, ("name",), ("writer_level",))
        tx.run(upsert, (step, time.time(), level))

    def steps(self) -> MigrationSteps:
        """See `SessionDBProvider.steps`."""
        with self.read() as tx:
            return steps_of(self._migrations, {name for name, _ in tx.all(STEPS_TAKEN)})

    def raw_sql(self) -> RawStatements:
        """See `SessionDBProvider.raw_sql`; statements are translated, or refused."""
        from hermes_sessions.storage.servers.raw_sql import Server, ServerStatements

        location = self._connections.location
        return ServerStatements(Server(self, self._syntax, self._driver_errors, location))

    def _require_our_table(self, table: str) -> None:
        if table not in OUR_TABLES:
            raise InvalidInput(f"There is no table {table!r}.")


def _reach_by(connections: ConnectionSource) -> float:
    """Return the monotonic time by which a unit that starts now must have a connection."""
    return time.monotonic() + connections.limits.reach


def nothing_to_resolve(lost: CommitUnknown) -> Any:
    """Raise AssertionError; passed to `run_unit` for reads, which have no commit to resolve."""
    raise AssertionError(f"a read has no commit to resolve: {lost}")
