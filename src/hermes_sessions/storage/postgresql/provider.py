"""The PostgreSQL provider."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from hermes_sessions.errors import (
    InvalidInput,
    StoreClosed,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
)
from hermes_sessions.storage.postgresql import appending, schema
from hermes_sessions.storage.postgresql.configured import (
    options_from_settings,
    options_from_url,
)
from hermes_sessions.storage.postgresql.connections import (
    BY_ROW_LOCKS,
    ISOLATED,
    READING,
    Connections,
    Options,
    require_schema_name,
)
from hermes_sessions.storage.postgresql.failures import is_connection_lost, is_passing, translate
from hermes_sessions.storage.postgresql.transaction import PsycopgTransaction
from hermes_sessions.storage.provider import (
    NO_WISHES,
    Dialect,
    NewRow,
    ReadTransaction,
    SessionDBProvider,
    Steps,
    Wishes,
    WriteTransaction,
)
from hermes_sessions.storage.tables import SEARCH_TABLES, SERVER_TABLES, TABLES
from hermes_sessions.storage.units import (
    NEVER,
    CommitUnknown,
    NotResolved,
    RunAgain,
    new_mark,
    run_unit,
)

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

    from hermes_sessions.config.settings import SessionDBSettings
    from hermes_sessions.storage.postgresql.search_index import TSVectorIndex

logger = logging.getLogger(__name__)

T = TypeVar("T")

DIALECT: Final = Dialect(
    name="postgresql",
    update_returning=True,
    for_update=" FOR UPDATE",
    max_params=65_000,
    appends_in_one_step=True,
)
#: Marks of units that ended longer ago than this are of no use; so many units between two looks.
_MARKS_KEPT: Final = 3600.0
_UNITS_TO_CLEAN: Final = 1000
#: Sessions outside lists that are remembered.
_UNLISTED_KNOWN: Final = 10_000
_OUR_TABLES: Final = [
    *(table.name for table in (*TABLES, *SEARCH_TABLES, *SERVER_TABLES)),
    "search_documents",
]


class PostgreSQLSessionDBProvider(SessionDBProvider):
    """A store in one schema of a PostgreSQL database (13 or later)."""

    name: ClassVar[str] = "postgresql"
    dialect: ClassVar[Dialect] = DIALECT

    def __init__(self, conninfo: str = "", options: Options | None = None) -> None:
        """*conninfo* is a libpq connection string or URI; call `initialize` before anything else.

        Raises:
            InvalidInput: the schema's name cannot be used.
        """
        options = options or Options()
        if conninfo:
            options = options._replace(conninfo=conninfo)
        require_schema_name(options.schema)
        self._options = options
        self._opened: Connections | None = None
        self._level = schema.WRITER_LEVEL
        self._units = 0
        #: Sessions that are not in lists, as far as seen: appending to them takes more.
        self._unlisted: set[str] = set()

    @classmethod
    def from_url(cls, url: str, wishes: Wishes = NO_WISHES) -> PostgreSQLSessionDBProvider:
        """A libpq URI, whose query may also name schema, max_connections, lock_timeout,
        statement_timeout and synchronous_commit.
        """
        return cls("", options_from_url(url, wishes)).initialize()

    @classmethod
    def from_settings(
        cls, settings: SessionDBSettings, wishes: Wishes = NO_WISHES
    ) -> PostgreSQLSessionDBProvider:
        """See `SessionDBProvider.from_settings`."""
        return cls("", options_from_settings(settings.postgresql, wishes)).initialize()

    def initialize(self, pool: ConnectionPool[Any] | None = None) -> PostgreSQLSessionDBProvider:
        """Connect, create or update the tables, and return the provider itself.

        *pool* is a ``psycopg_pool.ConnectionPool`` of the application's; it is used instead of an
        own one, and not closed.

        Raises:
            StoreError: the server cannot be reached, or refuses; the message says what to do.
        """
        connections = Connections(self._options, pool)
        try:
            connection = connections.acquire(self._options.lock_timeout)
            try:
                self._level = schema.make_current(
                    connection, self._options.schema, may_write=not self._options.read_only
                )
            except BaseException:
                connections.release(connection, keep=False)
                raise
            connections.release(connection)
        except psycopg.Error as error:
            connections.close()
            raise translate(error, connections.location) from error
        except BaseException:
            connections.close()
            raise
        self._opened = connections
        return self

    @property
    def _connections(self) -> Connections:
        if self._opened is None:
            raise StoreClosed("Cannot operate on a closed database. Open a new SessionDB.")
        return self._opened

    @property
    def read_only(self) -> bool:
        """See `SessionDBProvider.read_only`."""
        _ = self._connections
        return self._options.read_only

    # ── reading ───────────────────────────────────────────────────────────────────────────────

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """See `SessionDBProvider.read`."""
        return self._reading(self._connections)

    @contextmanager
    def _reading(self, connections: Connections) -> Iterator[ReadTransaction]:
        connection = run_unit(
            lambda: self._begin(connections, READING, None),
            _nothing_to_resolve,
            patience=self._options.lock_timeout,
        )
        try:
            yield PsycopgTransaction(connection)
            connection.execute(b"COMMIT")
        except psycopg.Error as error:
            raise translate(error, connections.location) from error
        finally:
            connections.release(connection, keep=_is_put_to_rest(connection))

    def _begin(
        self, connections: Connections, mode: str, patience: float | None
    ) -> psycopg.Connection:
        """Return a connection inside a new transaction.

        Raises:
            RunAgain: the connection was stale, or the server does not answer now.
        """
        connection = self._borrow(connections, patience)
        try:
            connection.execute(connections.beginning(mode, patience))
        except psycopg.Error as error:
            is_lost = is_connection_lost(error, connection)
            connections.release(connection, keep=False)
            ours = translate(error, connections.location)
            if is_lost:
                raise RunAgain(ours) from error
            raise ours from error
        except BaseException:
            connections.release(connection, keep=False)
            raise
        return connection

    def _borrow(self, connections: Connections, patience: float | None) -> psycopg.Connection:
        try:
            return connections.acquire(patience or self._options.lock_timeout)
        except PoolTimeout as error:
            raise StoreUnavailable(
                f"{connections.location}: all {self._options.max_connections} connections are in "
                f"use. Raise sessiondb.postgresql.max_connections, or use fewer threads."
            ) from error
        except PoolClosed as error:
            raise StoreClosed("Cannot operate on a closed pool. Open a new one.") from error
        except psycopg.OperationalError as error:
            raise RunAgain(translate(error, connections.location)) from error

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
        patience = min(patience or self._options.lock_timeout, self._options.lock_timeout)
        mode = ISOLATED if isolated else BY_ROW_LOCKS
        result: T = run_unit(
            lambda: self._attempt(connections, work, mode, patience),
            lambda lost: self._resolve(connections, lost),
            patience=patience,
        )
        self._clean_sometimes()
        return result

    def _writable(self) -> Connections:
        connections = self._connections
        if self._options.read_only:
            raise StoreReadOnly(
                f"{connections.location}: attempt to write a readonly database. This handle was "
                f"opened with read_only."
            )
        schema.require_known_level(self._level)
        return connections

    def _attempt(
        self,
        connections: Connections,
        work: Callable[[WriteTransaction], T],
        mode: str,
        patience: float,
    ) -> T:
        connection = self._begin(connections, mode, patience)
        mark = new_mark()
        is_committing = False
        result: T | None = None
        try:
            result = work(PsycopgTransaction(connection))
            is_committing = True
            # A mark of ours is hexadecimal, so that it can stand in the text: one round trip.
            connection.execute(
                f"INSERT INTO write_marks (mark, marked_at) VALUES ('{mark}', {time.time()!r}); "
                f"COMMIT".encode()
            )
            is_committing = False
        except psycopg.Error as error:
            if is_connection_lost(error, connection):
                if is_committing:
                    raise CommitUnknown(mark, result) from error
                raise RunAgain(translate(error, connections.location)) from error
            ours = translate(error, connections.location)
            if is_passing(error):
                raise RunAgain(ours) from error
            raise ours from error
        finally:
            connections.release(connection, keep=_is_put_to_rest(connection))
        return result

    def append_one(self, row: NewRow) -> int | None:
        """See `SessionDBProvider.append_one`."""
        connections = self._writable()
        result: int | None = run_unit(
            lambda: self._attempt_append(connections, row),
            lambda lost: self._resolve(connections, lost),
            patience=self._options.lock_timeout,
        )
        self._clean_sometimes()
        return result

    def _attempt_append(self, connections: Connections, row: NewRow) -> int | None:
        mark = new_mark()
        params = appending.parameters(row, mark, time.time())
        if connections.is_bare:
            connection = self._begin(connections, BY_ROW_LOCKS, None)
        else:
            connection = self._borrow(connections, None)
        try:
            if not connections.is_bare:
                return self._append_prepared(connections, connection, row, params)
            wanted = appending.statement(tuple(row.columns), listed=False)
            found = appending.run_once(connection, wanted, params)
            connection.execute(b"COMMIT")
            return found
        except psycopg.Error as error:
            if is_connection_lost(error, connection):
                raise CommitUnknown(mark, None) from error
            ours = translate(error, connections.location)
            if is_passing(error):
                raise RunAgain(ours) from error
            raise ours from error
        finally:
            connections.release(connection, keep=_is_put_to_rest(connection))

    def _append_prepared(
        self,
        connections: Connections,
        connection: psycopg.Connection,
        row: NewRow,
        params: list[bytes | None],
    ) -> int | None:
        prepared = connections.prepared_on(connection)
        columns = tuple(row.columns)
        if row.session_id not in self._unlisted:
            wanted = appending.statement(columns, listed=True)
            found = appending.run_prepared(connection, prepared, wanted, params)
            if found is not None:
                return found
        wanted = appending.statement(columns, listed=False)
        found = appending.run_prepared(connection, prepared, wanted, params)
        if found is not None:
            if len(self._unlisted) >= _UNLISTED_KNOWN:
                self._unlisted.clear()
            self._unlisted.add(row.session_id)
        return found

    def _resolve(self, connections: Connections, lost: CommitUnknown) -> Any:
        """Return the result of a unit whose commit got no answer, if it happened.

        Raises:
            RunAgain: it did not, and never will: its mark is ours now.
        """
        try:
            connection = self._begin(connections, BY_ROW_LOCKS, None)
        except RunAgain as again:
            raise NotResolved(again.error) from again
        try:
            connection.execute(
                "INSERT INTO write_marks (mark, message_id, marked_at) VALUES (%s, %s, %s) "
                "ON CONFLICT (mark) DO NOTHING",
                (lost.mark, NEVER, time.time()),
            )
            [message_id] = connection.execute(
                "SELECT message_id FROM write_marks WHERE mark = %s", (lost.mark,)
            ).fetchone() or (NEVER,)
            connection.execute(b"COMMIT")
        except psycopg.Error as error:
            raise NotResolved(translate(error, connections.location)) from error
        finally:
            connections.release(connection, keep=_is_put_to_rest(connection))
        if message_id == NEVER:
            raise RunAgain(StoreUnavailable(f"{connections.location}: the connection was lost."))
        return lost.result if message_id is None else int(message_id)

    def _clean_sometimes(self) -> None:
        self._units += 1
        if self._units % _UNITS_TO_CLEAN:
            return
        before = time.time() - _MARKS_KEPT
        try:
            self.write(
                lambda tx: tx.run("DELETE FROM write_marks WHERE marked_at < ?", (before,)),
                patience=0.1,
                isolated=False,
            )
        except StoreError as error:
            logger.info("old marks of commits stay a little longer: %s", error)

    # ── the rest ──────────────────────────────────────────────────────────────────────────────

    @property
    def search_index(self) -> TSVectorIndex:
        """See `SessionDBProvider.search_index`."""
        from hermes_sessions.storage.postgresql.search_index import TSVectorIndex

        return TSVectorIndex()

    def size_bytes(self) -> int:
        """Return the size of our tables and their indexes."""
        with self.read() as tx:
            row = tx.one(
                f"SELECT SUM(pg_total_relation_size(to_regclass(name))) "
                f"FROM (VALUES {', '.join(['(?)'] * len(_OUR_TABLES))}) AS ours(name)",
                _OUR_TABLES,
            )
        return int(row[0] or 0) if row else 0

    def reclaim(self) -> None:
        """Let the server use the space of deleted rows again (VACUUM), and learn what there is."""
        connections = self._writable()
        connection = self._borrow(connections, None)
        names = ", ".join(f"{self._options.schema}.{table}" for table in _OUR_TABLES)
        try:
            connection.execute(f"VACUUM (ANALYZE) {names}".encode())
        except psycopg.Error as error:
            raise translate(error, connections.location) from error
        finally:
            connections.release(connection, keep=_is_at_rest(connection))

    def after_explicit_ids(self, tx: WriteTransaction, table: str) -> None:
        """See `SessionDBProvider.after_explicit_ids`."""
        if table not in _OUR_TABLES:
            raise InvalidInput(f"There is no table {table!r}.")
        # Never backwards: others may have taken numbers that are not visible yet.
        tx.one(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), GREATEST("
            f"(SELECT COALESCE(MAX(id), 1) FROM {table}), "
            f"nextval(pg_get_serial_sequence('{table}', 'id'))))"
        )

    def steps(self) -> Steps:
        """See `SessionDBProvider.steps`."""
        with self.read() as tx:
            taken = {row[0] for row in tx.all("SELECT name FROM store_migrations")}
        return schema.steps(taken)

    def finish_steps(self) -> tuple[str, ...]:
        """See `SessionDBProvider.finish_steps`."""
        connections = self._writable()
        connection = self._borrow(connections, None)
        try:
            taken = schema.finish(connection, self._options.schema)
        except psycopg.Error as error:
            raise translate(error, connections.location) from error
        finally:
            connections.release(connection, keep=_is_at_rest(connection))
        return taken

    def describe(self) -> dict[str, Any]:
        """See `SessionDBProvider.describe`."""
        with self.read() as tx:
            row = tx.one("SELECT version(), current_user, current_database()")
        version, user, database = row or ("", "", "")
        return {
            "provider": self.name,
            "location": self._connections.location,
            "server_version": str(version).partition(" on ")[0],
            "database": database,
            "schema": self._options.schema,
            "user": user,
            "connections": self._connections.open_count,
            "max_connections": self._options.max_connections,
            "read_only": self._options.read_only,
        }

    def close(self) -> None:
        """See `SessionDBProvider.close`."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


def _nothing_to_resolve(lost: CommitUnknown) -> Any:
    raise AssertionError(f"a read has no commit to resolve: {lost}")


def _is_put_to_rest(connection: psycopg.Connection) -> bool:
    """End what is left of a transaction; a connection on which that fails is not used again."""
    if _is_at_rest(connection):
        return True
    if not connection.closed:
        try:
            connection.execute(b"ROLLBACK")
        except psycopg.Error as error:
            logger.debug("a connection was lost: %s", error)
    return _is_at_rest(connection)


def _is_at_rest(connection: psycopg.Connection) -> bool:
    # Of a connection that was lost or closed, the status is not known.
    return connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
