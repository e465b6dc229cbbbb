"""The MySQL and MariaDB provider."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pymysql

from hermes_sessions.storage.mysql import message_append, migrations
from hermes_sessions.storage.mysql.connection_options import (
    options_from_settings,
    options_from_url,
    with_open_options,
)
from hermes_sessions.storage.mysql.connections import (
    Connections,
    Options,
    Pool,
    PoolExhausted,
)
from hermes_sessions.storage.mysql.error_translation import (
    DRIVER_ERRORS,
    is_connection_lost,
    number_of,
    translate,
)
from hermes_sessions.storage.mysql.search_index import FulltextIndex
from hermes_sessions.storage.mysql.server_session import Script, ServerSession
from hermes_sessions.storage.mysql.transaction import MySQLTransaction
from hermes_sessions.storage.provider import (
    DEFAULT_OPEN_OPTIONS,
    Dialect,
    NewRow,
    OpenOptions,
    ReadTransaction,
    ServerChecks,
    Space,
    WriteTransaction,
    placeholders,
)
from hermes_sessions.storage.servers.driver import DriverErrors, Mode
from hermes_sessions.storage.servers.migrations import Migration
from hermes_sessions.storage.servers.provider import (
    OUR_TABLES,
    ServerProvider,
    nothing_to_resolve,
)
from hermes_sessions.storage.servers.response_timeouts import MIGRATION_SECONDS, time_limit
from hermes_sessions.storage.servers.sql_translation import FUNCTIONS, ServerSyntax
from hermes_sessions.storage.servers.unit_of_work import RetryUnit, run_unit

if TYPE_CHECKING:
    from hermes_sessions.config.settings import SessionDBSettings

from collections.abc import Sequence

from hermes_sessions.storage.mysql.migrations import ascii_lower

# The SQL dialect of this server.


class MySQLDialect(Dialect):
    """See `Dialect`."""

    def insert_if_absent(self, table: str, columns: Sequence[str], key: Sequence[str]) -> str:
        """See `Dialect.insert_if_absent`.

        ``INSERT IGNORE`` would swallow other violations, and ``ON DUPLICATE KEY`` would not say
        whether a row was added.
        """
        names = ", ".join(f'"{name}"' for name in columns)
        given = ", ".join(f'? AS "{name}"' for name in columns)
        same = " AND ".join(f'known."{name}" = given."{name}"' for name in key)
        return (
            f"INSERT INTO {table} ({names}) SELECT {names} FROM (SELECT {given}) AS given "
            f"WHERE NOT EXISTS (SELECT 1 FROM {table} AS known WHERE {same})"
        )

    def upsert(
        self,
        table: str,
        columns: Sequence[str],
        key: Sequence[str],  # noqa: ARG002 - any unique key counts
        update: Sequence[str],
    ) -> str:
        """See `Dialect.upsert`."""
        names = ", ".join(f'"{name}"' for name in columns)
        changes = ", ".join(f'"{name}" = VALUES("{name}")' for name in update)
        return (
            f"INSERT INTO {table} ({names}) VALUES ({placeholders(len(columns))}) "
            f"ON DUPLICATE KEY UPDATE {changes}"
        )

    def ascii_lower(self, expression: str) -> str:
        """See `Dialect.ascii_lower`."""
        return ascii_lower(expression)


DIALECT: Final = MySQLDialect(
    name="mysql",
    update_returning=False,
    for_update=" FOR UPDATE",
    max_params=65_000,
    appends_in_one_step=True,
    tables_query="SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
)

_CHECKS: Final = ServerChecks(
    clock="SELECT UNIX_TIMESTAMP(SYSDATE(6))",
    blockers=(
        (
            "SELECT DISTINCT trx.trx_mysql_thread_id, '', processes.user, processes.command "
            "FROM information_schema.innodb_lock_waits waits "
            "JOIN information_schema.innodb_trx trx ON trx.trx_id = waits.blocking_trx_id "
            "LEFT JOIN information_schema.processlist processes "
            "ON processes.id = trx.trx_mysql_thread_id"
        ),
        # MySQL, from 8 on.
        (
            "SELECT DISTINCT waits.blocking_pid, '', processes.user, processes.command "
            "FROM sys.innodb_lock_waits waits LEFT JOIN information_schema.processlist processes "
            "ON processes.id = waits.blocking_pid"
        ),
    ),
    check_tables="CHECK TABLE sessions, messages, lanes, mailbox, outbox",
)


_BEGINNINGS: Final[dict[Mode, tuple[str, ...]]] = {
    "isolated": ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION"),
    "by row locks": ("START TRANSACTION",),
    "reading": (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ),
}
_NULL_REFUSED: Final = 1048


class MySQLSessionDBProvider(ServerProvider[Connections, ServerSession]):
    """A store in one database of a MariaDB (10.11 or later) or MySQL (8 or later) server."""

    name: ClassVar[str] = "mysql"
    keeps: ClassVar[str | None] = (
        "The server has old rows in its files until OPTIMIZE TABLE rewrites them, and in its "
        "binary logs, replicas and dumps for as long as you keep those."
    )
    dialect: ClassVar[Dialect] = DIALECT
    server_checks: ClassVar[ServerChecks | None] = _CHECKS
    _driver_errors: ClassVar[DriverErrors] = DRIVER_ERRORS
    _syntax: ClassVar[ServerSyntax] = ServerSyntax(
        "MySQL",
        # Independent of the session's time zone.
        day="CAST(DATE(TIMESTAMPADD(SECOND, FLOOR({}), '1970-01-01')) AS CHAR)",
        functions={**FUNCTIONS, "LENGTH": "CHAR_LENGTH"},
    )
    _options: Options

    def __init__(self, options: Options) -> None:
        """Call `initialize` before anything else."""
        super().__init__()
        self._options = options

    @classmethod
    def from_url(
        cls, url: str, open_options: OpenOptions = DEFAULT_OPEN_OPTIONS
    ) -> MySQLSessionDBProvider:
        """Open ``mysql://user:password@host:port/database``; see `options_from_url`."""
        return cls(with_open_options(options_from_url(url), open_options)).initialize()

    @classmethod
    def from_settings(
        cls, settings: SessionDBSettings, open_options: OpenOptions = DEFAULT_OPEN_OPTIONS
    ) -> MySQLSessionDBProvider:
        """See `SessionDBProvider.from_settings`."""
        return cls(
            with_open_options(options_from_settings(settings.mysql), open_options)
        ).initialize()

    def initialize(self, pool: Pool | None = None) -> MySQLSessionDBProvider:
        """Connect, create or update the tables, and return the provider itself.

        *pool* is the application's own, used instead of a new one and never closed here.

        Raises:
            StoreError: the server cannot be reached, or refuses; the message says what to do.
        """
        connections = Connections(self._options, pool)
        self._open(
            connections,
            partial(self._make_current, connections),
        )
        return self

    def _make_current(self, connections: Connections, lent: ServerSession) -> int:
        with lent.answers.allowing(MIGRATION_SECONDS):
            return migrations.make_current(
                lent,
                may_write=not self._options.read_only,
                back_up=partial(self._back_up_first, connections),
            )

    @property
    def _migrations(self) -> tuple[Migration, ...]:
        return migrations.MIGRATIONS

    # ── units of work ─────────────────────────────────────────────────────────────────────────

    def _borrow(self, connections: Connections, patience: float | None) -> ServerSession:
        seconds = patience or self._options.lock_timeout
        return self._reaching(connections, lambda: connections.acquire(seconds))

    def _reaching(
        self, connections: Connections, reach: Callable[[], ServerSession]
    ) -> ServerSession:
        try:
            return reach()
        except PoolExhausted as error:
            raise self._exhausted(connections) from error
        except pymysql.Error as error:
            ours = translate(error, connections.location)
            if is_connection_lost(error, None):
                raise RetryUnit(ours) from error
            raise ours from error

    def _transaction(
        self, connections: Connections, lent: ServerSession, mode: Mode, lock_wait: float | None
    ) -> MySQLTransaction:
        if mode == "reading":
            return MySQLTransaction(
                lent, _BEGINNINGS[mode], partial(self._renewed, connections), is_writing=False
            )
        wait = self._options.lock_timeout if lock_wait is None else lock_wait
        return MySQLTransaction(lent, (*lent.waiting(wait), *_BEGINNINGS[mode]))

    def _renewed(self, connections: Connections, lost: ServerSession) -> ServerSession:
        patience = self._patience(connections)
        with time_limit(connections.limits.reach):
            session: ServerSession = run_unit(
                lambda: self._reaching(connections, lambda: connections.renewed(lost, patience)),
                nothing_to_resolve,
                patience=patience,
            )
        return session

    def _append(
        self,
        connections: Connections,
        lent: ServerSession,
        row: NewRow,
        mark: str,
        *,
        tip_too: bool,
    ) -> int | None:
        script = message_append.script(lent.connection, row, mark, time.time(), tip_too=tip_too)
        try:
            if tip_too and lent.is_galera:
                return self._run_apart(connections, lent, script, mark)
            return lent.run_script(lent.waiting(self._options.lock_timeout), script, mark)
        except pymysql.Error as error:
            if number_of(error) == _NULL_REFUSED and "session_id" in str(error):
                return None
            raise

    def _run_apart(
        self, connections: Connections, lent: ServerSession, script: Script, mark: str
    ) -> int:
        """Execute a script's statements one by one; see `ServerSession.statements_at_once`."""
        tx = self._transaction(connections, lent, "by row locks", None)
        _, *statements, _ = script.statements
        numbers = [tx.send(statement).lastrowid for statement in statements]
        tx.commit(mark, is_noted=True)
        return int(numbers[(script.inserting or 0) - 1] or 0)

    def _is_reset(
        self,
        connections: Connections,  # noqa: ARG002
        lent: ServerSession,
    ) -> bool:
        lent.lock_wait = -1  # The new value may not have been sent.
        return lent.is_ended("ROLLBACK", message_append.FORGET)

    # ── the rest ──────────────────────────────────────────────────────────────────────────────

    @property
    def search_index(self) -> FulltextIndex:
        """See `SessionDBProvider.search_index`."""
        return FulltextIndex(self._recreate_index)

    def _recreate_index(self) -> None:
        # Other processes search and index meanwhile, or rebuild the index as well, so a table must
        # exist at every moment.
        mark = secrets.token_hex(4)
        made, former = f"search_documents_made_{mark}", f"search_documents_former_{mark}"
        self._apart(
            migrations.SEARCH_INDEX,
            migrations.SEARCH_INDEX.replace("search_documents (", f"{made} (", 1),
            f"RENAME TABLE search_documents TO {former}, {made} TO search_documents",
            f"DROP TABLE {former}",
        )

    def _apart(self, *statements: str) -> None:
        """Execute statements that the server commits by itself, on another connection."""
        connections = self._writable()
        try:
            session = connections.apart(self._options.lock_timeout)
            try:
                with session.answers.allowing(MIGRATION_SECONDS):
                    for statement in statements:
                        session.execute(statement)
            finally:
                connections.give_back(session)
        except pymysql.Error as error:
            raise translate(error, connections.location) from error

    def _size(self, tx: ReadTransaction) -> int:
        row = tx.one(
            f"SELECT SUM(data_length + index_length) FROM information_schema.tables "
            f"WHERE table_schema = DATABASE() AND table_name IN "
            f"({placeholders(len(OUR_TABLES))})",
            OUR_TABLES,
        )
        return int(row[0] or 0) if row else 0

    def _space(self, tx: ReadTransaction) -> Space:
        rows = tx.all(
            f"SELECT table_name, data_length, index_length, data_free "
            f"FROM information_schema.tables WHERE table_schema = DATABASE() "
            f"AND table_name IN ({placeholders(len(OUR_TABLES))})",
            OUR_TABLES,
        )
        # The server reports one size for all indexes of a table.
        return Space(
            {name: int(data or 0) for name, data, _, _ in rows},
            {f"indexes of {name}": int(index) for name, _, index, _ in rows if index},
            free_bytes=sum(int(free or 0) for *_, free in rows),
            is_estimate=True,
        )

    def reclaim(self) -> None:
        """Free the space of deleted rows and update the statistics (OPTIMIZE TABLE)."""
        limit = "SET max_statement_time = 0"
        if "mariadb" not in self.describe()["server_version"].lower():
            limit = "SET max_execution_time = 0"
        self._apart(limit, *(f"OPTIMIZE TABLE {table}" for table in OUR_TABLES))

    def after_explicit_ids(self, tx: WriteTransaction, table: str) -> None:  # noqa: ARG002
        """See `SessionDBProvider.after_explicit_ids`; the server does that by itself."""
        self._require_our_table(table)

    def finish_steps(self) -> tuple[str, ...]:
        """See `SessionDBProvider.finish_steps`."""
        connections = self._writable()
        try:
            session = connections.apart(self._options.lock_timeout)
            try:
                with session.answers.allowing(MIGRATION_SECONDS):
                    return migrations.finish(session, partial(self._back_up_first, connections))
            finally:
                connections.give_back(session)
        except pymysql.Error as error:
            raise translate(error, connections.location) from error

    def describe(self) -> dict[str, Any]:
        """See `SessionDBProvider.describe`."""
        with self.read() as tx:
            row = tx.one("SELECT version(), current_user(), database()")
        version, user, database = row or ("", "", "")
        return {
            "provider": self.name,
            "location": self._connections.location,
            "server_version": str(version),
            "database": database,
            "user": user,
            "max_connections": self._options.max_connections,
            "read_only": self._options.read_only,
        }
