"""The MySQL and MariaDB provider."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import pymysql

from hermes_sessions.errors import (
    InvalidInput,
    StoreClosed,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
)
from hermes_sessions.storage.mysql import appending, schema
from hermes_sessions.storage.mysql.configured import (
    options_from_settings,
    options_from_url,
    wished,
)
from hermes_sessions.storage.mysql.connections import (
    Connections,
    Options,
    Pool,
    PoolExhausted,
    ServerSession,
    whole_seconds,
)
from hermes_sessions.storage.mysql.dialect import DIALECT
from hermes_sessions.storage.mysql.failures import (
    is_connection_lost,
    is_passing,
    number_of,
    translate,
)
from hermes_sessions.storage.mysql.search_index import FulltextIndex
from hermes_sessions.storage.mysql.transaction import MySQLTransaction, with_values
from hermes_sessions.storage.provider import (
    NO_WISHES,
    Dialect,
    NewRow,
    ReadTransaction,
    SessionDBProvider,
    Steps,
    Wishes,
    WriteTransaction,
    placeholders,
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
    from hermes_sessions.config.settings import SessionDBSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ISOLATED: Final = ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION")
_BY_ROW_LOCKS: Final = ("START TRANSACTION",)
_READING: Final = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)
#: Marks of units that ended longer ago than this are of no use; so many units between two looks.
_MARKS_KEPT: Final = 3600.0
_UNITS_TO_CLEAN: Final = 1000
#: Sessions outside lists that are remembered.
_UNLISTED_KNOWN: Final = 10_000
_NULL_REFUSED: Final = 1048
_DUPLICATE: Final = 1062
_OUR_TABLES: Final = [
    *(table.name for table in (*TABLES, *SEARCH_TABLES, *SERVER_TABLES)),
    "search_documents",
]


class MySQLSessionDBProvider(SessionDBProvider):
    """A store in one database of a MariaDB (10.11 or later) or MySQL (8 or later) server."""

    name: ClassVar[str] = "mysql"
    dialect: ClassVar[Dialect] = DIALECT

    def __init__(self, options: Options) -> None:
        """Call `initialize` before anything else."""
        self._options = options
        self._opened: Connections | None = None
        self._level = schema.WRITER_LEVEL
        self._units = 0
        #: Sessions that are not in lists, as far as seen: appending to them takes more.
        self._unlisted: set[str] = set()

    @classmethod
    def from_url(cls, url: str, wishes: Wishes = NO_WISHES) -> MySQLSessionDBProvider:
        """``mysql://user:password@host:port/database``; see `options_from_url`."""
        return cls(wished(options_from_url(url), wishes)).initialize()

    @classmethod
    def from_settings(
        cls, settings: SessionDBSettings, wishes: Wishes = NO_WISHES
    ) -> MySQLSessionDBProvider:
        """See `SessionDBProvider.from_settings`."""
        return cls(wished(options_from_settings(settings.mysql), wishes)).initialize()

    def initialize(self, pool: Pool | None = None) -> MySQLSessionDBProvider:
        """Connect, create or update the tables, and return the provider itself.

        *pool* is the application's own; it is used instead of ours, and not closed.

        Raises:
            StoreError: the server cannot be reached, or refuses; the message says what to do.
        """
        connections = Connections(self._options, pool)
        try:
            session = connections.acquire(self._options.lock_timeout)
            try:
                self._level = schema.make_current(session, may_write=not self._options.read_only)
            except BaseException:
                connections.release(session, keep=False)
                raise
            connections.release(session)
        except pymysql.Error as error:
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
        patience = self._options.lock_timeout

        def renewed(lost: ServerSession) -> ServerSession:
            session: ServerSession = run_unit(
                lambda: self._reaching(connections, lambda: connections.renewed(lost, patience)),
                _nothing_to_resolve,
                patience=patience,
            )
            return session

        session = run_unit(
            lambda: self._borrow(connections, None), _nothing_to_resolve, patience=patience
        )
        tx = MySQLTransaction(session, _READING, renewed)
        is_whole = False
        try:
            yield tx
            is_whole = True
        except pymysql.Error as error:
            raise translate(error, connections.location) from error
        finally:
            is_clean = _end(tx, "COMMIT" if is_whole else "ROLLBACK")
            connections.release(tx.session, keep=is_clean)

    def _borrow(self, connections: Connections, patience: float | None) -> ServerSession:
        """Return a session outside any transaction.

        Raises:
            RunAgain: the server does not answer now.
        """
        seconds = patience or self._options.lock_timeout
        return self._reaching(connections, lambda: connections.acquire(seconds))

    def _reaching(
        self, connections: Connections, reach: Callable[[], ServerSession]
    ) -> ServerSession:
        try:
            return reach()
        except PoolExhausted as error:
            raise StoreUnavailable(
                f"{connections.location}: all {self._options.max_connections} connections are in "
                f"use. Raise sessiondb.mysql.max_connections, or use fewer threads."
            ) from error
        except pymysql.Error as error:
            ours = translate(error, connections.location)
            if is_connection_lost(error, None):
                raise RunAgain(ours) from error
            raise ours from error

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
        beginning = _ISOLATED if isolated else _BY_ROW_LOCKS
        result: T = run_unit(
            lambda: self._attempt(connections, work, beginning, patience),
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
        beginning: tuple[str, ...],
        patience: float,
    ) -> T:
        session = self._borrow(connections, patience)
        tx = MySQLTransaction(session, (*_waiting(session, patience), *beginning))
        mark = new_mark()
        is_committing = is_clean = False
        result: T | None = None
        try:
            result = work(tx)
            is_committing = True
            # A mark of ours is hexadecimal, so that it can stand in the text: one round trip.
            tx.send(
                f"INSERT INTO write_marks (mark, marked_at) VALUES ('{mark}', {time.time()!r})",
                "COMMIT",
            )
            is_committing = False
            is_clean = True
        except pymysql.Error as error:
            ours = translate(error, connections.location)
            if is_connection_lost(error, session.connection):
                if is_committing:
                    raise CommitUnknown(mark, result) from error
                raise RunAgain(ours) from error
            if is_passing(error):
                raise RunAgain(ours) from error
            raise ours from error
        finally:
            connections.release(session, keep=is_clean or _end(tx, "ROLLBACK"))
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
        if row.session_id not in self._unlisted:
            number = self._attempt_append_to(connections, row, listed=True)
            if number is not None:
                return number
        number = self._attempt_append_to(connections, row, listed=False)
        if number is not None:
            if len(self._unlisted) >= _UNLISTED_KNOWN:
                self._unlisted.clear()
            self._unlisted.add(row.session_id)
        return number

    def _attempt_append_to(
        self, connections: Connections, row: NewRow, *, listed: bool
    ) -> int | None:
        session = self._borrow(connections, None)
        mark = new_mark()
        is_clean = False
        try:
            sql, params = appending.statements(row, mark, time.time(), listed=listed)
            text = with_values(session.connection, sql, params)
            first = _waiting(session, self._options.lock_timeout)
            inserted = len(first) + appending.INSERTED
            number = session.run_script("; ".join([*first, text]), inserted)
            is_clean = True
        except pymysql.Error as error:
            if is_connection_lost(error, session.connection):
                raise CommitUnknown(mark, None) from error
            if number_of(error) == _NULL_REFUSED and "session_id" in str(error):
                return None
            ours = translate(error, connections.location)
            if is_passing(error):
                raise RunAgain(ours) from error
            raise ours from error
        finally:
            connections.release(session, keep=is_clean or _rolled_back(session))
        return number

    def _resolve(self, connections: Connections, lost: CommitUnknown) -> Any:
        """Return the result of a unit whose commit got no answer, if it happened.

        Raises:
            RunAgain: it did not, and never will: its mark is ours now.
        """
        try:
            session = self._borrow(connections, None)
        except RunAgain as again:
            raise NotResolved(again.error) from again
        tx = MySQLTransaction(session, (*_waiting(session, 1.0), *_BY_ROW_LOCKS))
        message_id: int | None = NEVER
        is_clean = False
        try:
            try:
                tx.run(
                    "INSERT INTO write_marks (mark, message_id, marked_at) VALUES (?, ?, ?)",
                    (lost.mark, NEVER, time.time()),
                )
            except pymysql.err.IntegrityError as error:
                if number_of(error) != _DUPLICATE:
                    raise
                row = tx.one("SELECT message_id FROM write_marks WHERE mark = ?", (lost.mark,))
                message_id = None if row is None else row[0]
            tx.run("COMMIT")
            is_clean = True
        except pymysql.Error as error:
            raise NotResolved(translate(error, connections.location)) from error
        finally:
            connections.release(session, keep=is_clean or _end(tx, "ROLLBACK"))
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
    def search_index(self) -> FulltextIndex:
        """See `SessionDBProvider.search_index`."""
        return FulltextIndex(self._make_index_anew)

    def _make_index_anew(self) -> None:
        self._apart("DROP TABLE IF EXISTS search_documents", schema.SEARCH_INDEX)

    def _apart(self, *statements: str) -> None:
        """Execute statements that the server commits by itself, on another connection."""
        connections = self._writable()
        try:
            session = connections.apart(self._options.lock_timeout)
            try:
                for statement in statements:
                    session.execute(statement)
            finally:
                connections.give_back(session)
        except pymysql.Error as error:
            raise translate(error, connections.location) from error

    def size_bytes(self) -> int:
        """Return the size of our tables and their indexes, as far as the server tells it."""
        with self.read() as tx:
            row = tx.one(
                f"SELECT SUM(data_length + index_length) FROM information_schema.tables "
                f"WHERE table_schema = DATABASE() AND table_name IN "
                f"({placeholders(len(_OUR_TABLES))})",
                _OUR_TABLES,
            )
        return int(row[0] or 0) if row else 0

    def reclaim(self) -> None:
        """Give the space of deleted rows back (OPTIMIZE TABLE), and learn what there is."""
        limit = "SET max_statement_time = 0"
        if "mariadb" not in self.describe()["server_version"].lower():
            limit = "SET max_execution_time = 0"
        self._apart(limit, *(f"OPTIMIZE TABLE {table}" for table in _OUR_TABLES))

    def after_explicit_ids(self, tx: WriteTransaction, table: str) -> None:  # noqa: ARG002
        """See `SessionDBProvider.after_explicit_ids`; the server does that by itself."""
        if table not in _OUR_TABLES:
            raise InvalidInput(f"There is no table {table!r}.")

    def steps(self) -> Steps:
        """See `SessionDBProvider.steps`."""
        with self.read() as tx:
            rows = tx.all(schema.STEPS_TAKEN)
        return schema.steps({row[0] for row in rows})

    def finish_steps(self) -> tuple[str, ...]:
        """See `SessionDBProvider.finish_steps`."""
        connections = self._writable()
        try:
            session = connections.apart(self._options.lock_timeout)
            try:
                return schema.finish(session)
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

    def close(self) -> None:
        """See `SessionDBProvider.close`."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


def _nothing_to_resolve(lost: CommitUnknown) -> Any:
    raise AssertionError(f"a read has no commit to resolve: {lost}")


def _waiting(session: ServerSession, patience: float) -> tuple[str, ...]:
    """Return what makes statements wait for rows as long as wanted, if they do not yet."""
    seconds = whole_seconds(patience, session.is_mariadb)
    if seconds == session.lock_wait:
        return ()
    session.lock_wait = seconds
    return (f"SET innodb_lock_wait_timeout = {seconds}",)


def _end(tx: MySQLTransaction, how: str) -> bool:
    """End what is left of a transaction; return whether its connection can be used again."""
    if not tx.session.is_usable:
        return False
    try:
        tx.close_streams()
        if tx.has_begun:
            tx.session.execute(how)
        else:
            tx.session.lock_wait = -1  # What was to be set was never sent.
    except pymysql.Error as error:
        logger.debug("a connection was lost: %s", error)
        return False
    return True


def _rolled_back(session: ServerSession) -> bool:
    if not session.is_usable:
        return False
    try:
        session.execute("ROLLBACK")
    except pymysql.Error as error:
        logger.debug("a connection was lost: %s", error)
        return False
    return True
