"""One connection to a MySQL or MariaDB server, and the state of the server's session."""

from __future__ import annotations

import logging
import math
import os
import time
from typing import Any, Final, NamedTuple

import pymysql
from pymysql.constants import FIELD_TYPE, SERVER_STATUS

from hermes_sessions.errors import StatementRefused, StoreUnreachable
from hermes_sessions.storage.mysql.error_translation import is_connection_lost
from hermes_sessions.storage.mysql.response_timeouts import ServerResponses
from hermes_sessions.storage.servers import driver

logger = logging.getLogger(__name__)

#: Seconds after which an idle connection is checked before use.
_PINGED_AFTER: Final = 5.0
#: Names in double quotes; texts in single quotes, where only the quote itself is escaped, which
#: takes a fortieth of the time.
_SQL_MODE: Final = (
    "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,"
    "NO_AUTO_VALUE_ON_ZERO,ERROR_FOR_DIVISION_BY_ZERO"
)


#: A node that repeats a statement by itself repeats it without the rest of its transaction, and
#: reports success. What it reads includes what other nodes committed before.
_GALERA_SETTINGS: Final = "wsrep_retry_autocommit = 0, wsrep_sync_wait = 1"

#: The server's errors for a deadlock, and for a commit that may or may not have happened.
_DEADLOCK: Final = 1213
_NOT_COMMITTED: Final = 1180

#: Matches a row if a mark is stored. It asks for this node's own commit, and need not wait for
#: those of others. With its result in a variable, the response is as short as possible.
_VERIFICATION: Final = (
    "/*M! SET STATEMENT wsrep_sync_wait = 0 FOR */ "
    "SELECT mark INTO @hermes_stored FROM write_marks WHERE mark = '{}'"
)


class Script(NamedTuple):
    """The statements of a transaction, or the rest of them; their indexes start at 0."""

    statements: tuple[str, ...]
    #: After these the server must still be in the transaction.
    within: range = range(0)
    #: The one that generates an id.
    inserting: int | None = None


class ServerSession:
    """A connection, and the state of the server's session."""

    __slots__ = (
        *(
            "connection",
            "idle_since",
            "is_busy",
            "is_galera",
            "is_mariadb",
            "lock_wait",
            "max_packet",
        ),
        *("_greeting", "answers", "is_lost", "node", "process"),
    )

    def __init__(
        self,
        connection: pymysql.Connection[Any],
        *,
        lock_timeout: float,
        statement_timeout: float,
        answers: ServerResponses,
    ) -> None:
        """Set up the server's session; *answers* are the responses on *connection*."""
        self.connection = connection
        self._greeting = _greeting(connection)
        self.answers = answers
        version: str = connection.server_version  # type: ignore[attr-defined]
        self.is_mariadb = "mariadb" in version.lower()
        self.lock_wait = whole_seconds(lock_timeout, self.is_mariadb)
        self.idle_since = 0.0
        #: Whether replies may still arrive, because Ctrl-C interrupted a statement. The
        #: next statement would read them as its own.
        self.is_busy = False
        #: Whether the server ended the session, or accepts no more statements.
        self.is_lost = False
        #: The host and port of the server, if known.
        self.node: tuple[str, int] | None = None
        self.process = os.getpid()
        self.max_packet = 2**30
        # Sums of integers arrive as decimals; return them as integers.
        connection.decoders = {
            **connection.decoders,
            FIELD_TYPE.DECIMAL: _number,
            FIELD_TYPE.NEWDECIMAL: _number,
        }
        statements = [
            f"SET {', '.join(self._settings(lock_timeout, statement_timeout))}",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SELECT @@max_allowed_packet",
            "SHOW VARIABLES LIKE 'wsrep_on'",
        ]
        cursor = self.execute("; ".join(statements), skipped=2)
        [(self.max_packet,)] = cursor.fetchall()
        cursor.nextset()
        #: Whether the server is a node of a Galera cluster.
        self.is_galera = [value for _, value in cursor.fetchall()] == ["ON"]
        if self.is_galera:
            self.execute(f"SET {_GALERA_SETTINGS}")
        status: int = connection.server_status  # type: ignore[attr-defined]
        if not status & SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES:
            # The driver reads from it how to quote text.
            raise StoreUnreachable(
                "The server does not say which sql_mode it uses; a proxy may hide it. Connect to "
                "the server directly."
            )

    def _settings(self, lock_timeout: float, statement_timeout: float) -> list[str]:
        settings = [
            f"collation_connection = '{self.collation}'",
            f"sql_mode = '{_SQL_MODE}'",
            "autocommit = 1",
            f"innodb_lock_wait_timeout = {self.lock_wait}",
            f"lock_wait_timeout = {max(1, math.ceil(lock_timeout))}",
        ]
        if self.is_mariadb:
            settings.append(f"max_statement_time = {statement_timeout:f}")
            settings.append(f"idle_write_transaction_timeout = {driver.IDLE_WRITE_SECONDS}")
        else:
            # MySQL can stop only statements that read.
            settings.append(f"max_execution_time = {int(statement_timeout * 1000)}")
            settings.append("information_schema_stats_expiry = 0")
        return settings

    @property
    def collation(self) -> str:
        """Bytewise, and blanks at the end count: as on the other databases."""
        return "utf8mb4_nopad_bin" if self.is_mariadb else "utf8mb4_0900_bin"

    def execute(
        self, sql: str, *, skipped: int = 0, unbuffered: bool = False
    ) -> pymysql.cursors.Cursor:
        """Execute one statement, or several with semicolons between them, in one round trip.

        Return the cursor on the result of the last one; the *skipped* ones before it give none.

        Raises:
            StatementRefused: the server would cut the connection, because it is too large.
        """
        self._require_size(sql)
        self.answers.prepare()
        kind = pymysql.cursors.SSCursor if unbuffered else pymysql.cursors.Cursor
        cursor = self.connection.cursor(kind)
        self.is_busy = True
        try:
            cursor.execute(sql)
            for _ in range(skipped):
                cursor.nextset()
        except pymysql.Error as error:
            self._note(error)
            raise
        self.is_busy = False
        return cursor

    def run_script(self, first: tuple[str, ...], script: Script, mark: str) -> int:
        """Execute a transaction that stores *mark*, after the statements *first*, in one round
        trip; return the id that it generated. A cursor would cost more than its smaller statements.
        For a node of a cluster, see `statements_at_once`.

        Returns only if the transaction is stored. The answers to its statements tell; a node of a
        cluster, which may report the success of something that it repeated, is asked for the mark.

        Raises:
            pymysql.Error: the server's error; 1213 if it left the transaction without an error,
                1180 if it reported a commit that is missing or cannot be verified.
        """
        verification = (_VERIFICATION.format(mark),) if self.is_galera else ()
        sql = "; ".join((*first, *script.statements, *verification))
        self._require_size(sql)
        connection = self.connection
        self.is_busy = True
        number, position = 0, -len(first)
        is_whole = True
        try:
            with self.answers.committing():
                self.answers.prepare()
                connection.query(sql)
                while True:
                    if position in script.within:
                        is_whole = is_whole and self.is_in_transaction
                    if position == script.inserting:
                        number = int(connection.insert_id())  # type: ignore[no-untyped-call]
                    if not self._has_more():
                        break
                    position += 1
                    connection.next_result()
        except pymysql.Error as error:
            self._note(error)
            if not is_whole:
                raise left_transaction() from error
            if position >= len(script.statements):
                raise _commit_unknown(str(error.args[-1])) from error
            raise
        self.is_busy = False
        if not is_whole:
            raise left_transaction()
        if verification and not connection.affected_rows():  # type: ignore[no-untyped-call]
            raise _commit_unknown("the server reported a commit that is not there")
        return number

    def statements_at_once(self, statements: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Group the statements of a transaction by those that can share a round trip.

        If a cluster node rolls a transaction back because of another node's while it runs several
        statements, it executes and commits the next one before it reports that. So there, each
        statement is sent on its own.
        """
        return [(statement,) for statement in statements] if self.is_galera else [statements]

    def _note(self, error: pymysql.Error) -> None:
        self.is_busy = False
        if is_connection_lost(error, self):
            self.is_lost = True
            self.close()

    @property
    def is_in_transaction(self) -> bool:
        """Whether the server was in a transaction when it reported success last."""
        status: int = self.connection.server_status  # type: ignore[attr-defined]
        return bool(status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)

    def _has_more(self) -> bool:
        status: int = self.connection.server_status  # type: ignore[attr-defined]
        return bool(status & SERVER_STATUS.SERVER_MORE_RESULTS_EXISTS)

    def _require_size(self, sql: str) -> None:
        # A character takes at most four bytes: most statements need no count.
        if len(sql) * 4 >= self.max_packet and len(sql.encode("utf-8")) >= self.max_packet:
            raise StatementRefused(
                f"A statement of {len(sql):,} characters is larger than the {self.max_packet:,} "
                f"bytes that the server accepts. Raise max_allowed_packet on the server."
            )

    @property
    def is_as_prepared(self) -> bool:
        """Whether the server's session is still the one that was set up here: the owner of the
        connection may have let the driver reconnect.
        """
        return self._greeting == _greeting(self.connection)

    @property
    def is_usable(self) -> bool:
        """Whether statements can be sent, as far as known."""
        return self.connection.open and not self.is_busy

    def is_alive(self) -> bool:
        """Check whether the server answers, if it has not for a while."""
        if time.monotonic() - self.idle_since < _PINGED_AFTER:
            return True
        try:
            with self.answers.probing():
                self.answers.prepare()
                self.connection.ping(reconnect=False)
        except (pymysql.Error, OSError):
            return False
        return True

    def waiting(self, patience: float) -> tuple[str, ...]:
        """Return the statements that set the lock wait to *patience*, none if it is already set;
        the caller must send them next.
        """
        seconds = whole_seconds(patience, self.is_mariadb)
        if seconds == self.lock_wait:
            return ()
        self.lock_wait = seconds
        return (f"SET innodb_lock_wait_timeout = {seconds}",)

    def is_ended(self, how: str, *and_then: str) -> bool:
        """End a transaction; return whether the connection can be used again."""
        if not self.is_usable:
            return False
        try:
            with self.answers.committing():
                self.execute("; ".join((how, *and_then)), skipped=len(and_then))
        except pymysql.Error as error:
            logger.debug("a connection was lost: %s", error)
            return False
        return True

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        if self.connection.open:
            self.connection.close()


def left_transaction() -> pymysql.Error:
    """Return the error for a server that rolled a transaction back and reported success."""
    return pymysql.err.OperationalError(_DEADLOCK, "the server left the transaction unasked")


def _commit_unknown(said: str) -> pymysql.Error:
    return pymysql.err.OperationalError(_NOT_COMMITTED, said)


def _greeting(connection: pymysql.Connection[Any]) -> tuple[Any, Any]:
    """Return the parts of the server's greeting that are unique per connection: its id and the
    random bytes.
    """
    said = vars(connection)
    return said.get("server_thread_id"), said.get("salt")


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def whole_seconds(patience: float, is_mariadb: bool) -> int:
    """Return how long the server lets a statement wait for a row, for a wait of *patience*.

    Only MariaDB can be told not to wait at all.
    """
    if patience < 0.5 and is_mariadb:
        return 0
    return min(max(1, math.ceil(patience)), 1_000_000)
