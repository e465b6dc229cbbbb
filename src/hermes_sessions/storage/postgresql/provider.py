"""The PostgreSQL provider."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from hermes_sessions.errors import StoreClosed
from hermes_sessions.storage.postgresql import message_append, migrations
from hermes_sessions.storage.postgresql.connection_options import (
    options_from_settings,
    options_from_url,
)
from hermes_sessions.storage.postgresql.connections import (
    Connections,
    Options,
    require_schema_name,
)
from hermes_sessions.storage.postgresql.error_translation import DRIVER_ERRORS, translate
from hermes_sessions.storage.postgresql.transaction import (
    PsycopgTransaction,
    is_at_rest,
    is_ended,
)
from hermes_sessions.storage.provider import (
    DEFAULT_OPEN_OPTIONS,
    Dialect,
    NewRow,
    OpenOptions,
    ReadTransaction,
    ServerChecks,
    Space,
    WriteTransaction,
)
from hermes_sessions.storage.servers.driver import DriverErrors, Mode
from hermes_sessions.storage.servers.migrations import Migration
from hermes_sessions.storage.servers.provider import OUR_TABLES, ServerProvider
from hermes_sessions.storage.servers.response_timeouts import MIGRATION_SECONDS
from hermes_sessions.storage.servers.sql_translation import FUNCTIONS, ServerSyntax
from hermes_sessions.storage.servers.unit_of_work import RetryUnit

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

    from hermes_sessions.config.settings import SessionDBSettings
    from hermes_sessions.storage.postgresql.search_index import TSVectorIndex

DIALECT: Final = Dialect(
    name="postgresql",
    update_returning=True,
    for_update=" FOR UPDATE",
    max_params=65_000,
    appends_in_one_step=True,
    tables_query="SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = CURRENT_SCHEMA()",
)

_CHECKS: Final = ServerChecks(
    clock="SELECT EXTRACT(EPOCH FROM clock_timestamp())::DOUBLE PRECISION",
    blockers=(
        (
            "SELECT DISTINCT a.pid, a.application_name, a.usename, a.state "
            "FROM pg_stat_activity waiting, unnest(pg_blocking_pids(waiting.pid)) AS by(pid), "
            "pg_stat_activity a WHERE a.pid = by.pid AND waiting.datname = current_database()"
        ),
    ),
    damaged_pages="SELECT checksum_failures FROM pg_stat_database "
    "WHERE datname = current_database()",
)


class PostgreSQLSessionDBProvider(ServerProvider[Connections, psycopg.Connection]):
    """A store in one schema of a PostgreSQL database (13 or later)."""

    name: ClassVar[str] = "postgresql"
    keeps: ClassVar[str | None] = (
        "PostgreSQL has old row versions in its files until VACUUM FULL rewrites them, and in its "
        "log, log archives, replicas and dumps for as long as you keep those."
    )
    dialect: ClassVar[Dialect] = DIALECT
    server_checks: ClassVar[ServerChecks | None] = _CHECKS
    _driver_errors: ClassVar[DriverErrors] = DRIVER_ERRORS
    _syntax: ClassVar[ServerSyntax] = ServerSyntax(
        "PostgreSQL",
        day="to_char(to_timestamp({}) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
        functions=FUNCTIONS,
        places_nulls=True,
    )
    _options: Options

    def __init__(self, conninfo: str = "", options: Options | None = None) -> None:
        """*conninfo* is a libpq connection string or URI; call `initialize` before anything else.

        Raises:
            InvalidInput: the schema's name cannot be used.
        """
        super().__init__()
        options = options or Options()
        if conninfo:
            options = options._replace(conninfo=conninfo)
        require_schema_name(options.schema)
        self._options = options

    @classmethod
    def from_url(
        cls, url: str, open_options: OpenOptions = DEFAULT_OPEN_OPTIONS
    ) -> PostgreSQLSessionDBProvider:
        """Open a libpq URI, which may also contain the parameters schema, max_connections,
        lock_timeout, statement_timeout and synchronous_commit.
        """
        return cls("", options_from_url(url, open_options)).initialize()

    @classmethod
    def from_settings(
        cls, settings: SessionDBSettings, open_options: OpenOptions = DEFAULT_OPEN_OPTIONS
    ) -> PostgreSQLSessionDBProvider:
        """See `SessionDBProvider.from_settings`."""
        return cls("", options_from_settings(settings.postgresql, open_options)).initialize()

    def initialize(self, pool: ConnectionPool[Any] | None = None) -> PostgreSQLSessionDBProvider:
        """Connect, create or update the tables, and return the provider itself.

        *pool* is the application's own ``psycopg_pool.ConnectionPool``, used instead of a new one
        and never closed here.

        Raises:
            StoreError: the server cannot be reached, or refuses; the message says what to do.
        """
        connections = Connections(self._options, pool)
        self._open(
            connections,
            partial(self._make_current, connections),
        )
        return self

    def _make_current(self, connections: Connections, lent: psycopg.Connection) -> int:
        with connections.answers_on(lent).allowing(MIGRATION_SECONDS):
            return migrations.make_current(
                lent,
                self._options.schema,
                may_write=not self._options.read_only,
                back_up=partial(self._back_up_first, connections),
            )

    @property
    def _migrations(self) -> tuple[Migration, ...]:
        return migrations.MIGRATIONS

    # ── units of work ─────────────────────────────────────────────────────────────────────────

    def _borrow(self, connections: Connections, patience: float | None) -> psycopg.Connection:
        try:
            return connections.acquire(patience or self._options.lock_timeout)
        except PoolTimeout as error:
            raise self._exhausted(connections) from error
        except PoolClosed as error:
            raise StoreClosed("Cannot operate on a closed pool. Open a new one.") from error
        except psycopg.OperationalError as error:
            raise RetryUnit(translate(error, connections.location)) from error

    def _transaction(
        self,
        connections: Connections,
        lent: psycopg.Connection,
        mode: Mode,
        lock_wait: float | None,
    ) -> PsycopgTransaction:
        lent.execute(connections.beginning(mode, lock_wait))
        return PsycopgTransaction(lent, connections.answers_on(lent))

    def _append(
        self,
        connections: Connections,
        lent: psycopg.Connection,
        row: NewRow,
        mark: str,
        *,
        tip_too: bool,
    ) -> int | None:
        params = message_append.parameters(row, mark, time.time())
        wanted = message_append.statement(tuple(row.columns), tip_too=tip_too)
        answers = connections.answers_on(lent)
        if not connections.is_bare:
            return message_append.run_prepared(lent, answers, wanted, params)
        tx = self._transaction(connections, lent, "by row locks", None)
        found = message_append.run_once(lent, answers, wanted, params)
        tx.commit(mark, is_noted=True)
        return found

    def _is_reset(self, connections: Connections, lent: psycopg.Connection) -> bool:
        return is_ended(lent, connections.answers_on(lent), "ROLLBACK")

    # ── the rest ──────────────────────────────────────────────────────────────────────────────

    @property
    def search_index(self) -> TSVectorIndex:
        """See `SessionDBProvider.search_index`."""
        from hermes_sessions.storage.postgresql.search_index import TSVectorIndex

        return TSVectorIndex()

    def _size(self, tx: ReadTransaction) -> int:
        row = tx.one(
            f"SELECT SUM(pg_total_relation_size(to_regclass(name))) "
            f"FROM (VALUES {', '.join(['(?)'] * len(OUR_TABLES))}) AS ours(name)",
            OUR_TABLES,
        )
        return int(row[0] or 0) if row else 0

    def _space(self, tx: ReadTransaction) -> Space:
        ours = f"(VALUES {', '.join(['(?)'] * len(OUR_TABLES))}) AS ours(name)"
        tables = tx.all(
            f"SELECT name, pg_table_size(to_regclass(name)) FROM {ours} "
            f"WHERE to_regclass(name) IS NOT NULL",
            OUR_TABLES,
        )
        indexes = tx.all(
            f"SELECT c.relname::text, pg_relation_size(c.oid) FROM pg_index i "
            f"JOIN pg_class c ON c.oid = i.indexrelid "
            f"JOIN {ours} ON to_regclass(ours.name) = i.indrelid",
            OUR_TABLES,
        )
        return Space(
            {name: int(size) for name, size in tables}, {name: int(size) for name, size in indexes}
        )

    def reclaim(self) -> None:
        """Let the server reuse the space of deleted rows and update its statistics (VACUUM)."""
        connections = self._writable()
        connection = self._borrow(connections, None)
        names = ", ".join(f"{self._options.schema}.{table}" for table in OUR_TABLES)
        try:
            connection.execute(f"VACUUM (ANALYZE) {names}".encode())
        except psycopg.Error as error:
            raise translate(error, connections.location) from error
        finally:
            connections.release(connection, keep=is_at_rest(connection))

    def after_explicit_ids(self, tx: WriteTransaction, table: str) -> None:
        """See `SessionDBProvider.after_explicit_ids`."""
        self._require_our_table(table)
        # Never backwards: other transactions may have used numbers that are not visible yet.
        tx.one(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), GREATEST("
            f"(SELECT COALESCE(MAX(id), 1) FROM {table}), "
            f"nextval(pg_get_serial_sequence('{table}', 'id'))))"
        )

    def finish_steps(self) -> tuple[str, ...]:
        """See `SessionDBProvider.finish_steps`."""
        connections = self._writable()
        connection = self._borrow(connections, None)
        try:
            with connections.answers_on(connection).allowing(MIGRATION_SECONDS):
                taken = migrations.finish(
                    connection, self._options.schema, partial(self._back_up_first, connections)
                )
        except psycopg.Error as error:
            raise translate(error, connections.location) from error
        finally:
            connections.release(connection, keep=is_at_rest(connection))
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
