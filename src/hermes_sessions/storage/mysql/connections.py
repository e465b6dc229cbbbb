"""Connections to one server, from a small pool of our own.

What a connection needs is set once, when it starts. One that was idle for a while is asked whether
it still lives before it is used; one that was lost is thrown away, and its neighbours with it.
"""

from __future__ import annotations

import math
import os
import ssl
import threading
import time
import weakref
from collections import deque
from typing import Any, Final, NamedTuple, Protocol

import pymysql
from pymysql.constants import CLIENT, FIELD_TYPE, SERVER_STATUS
from pymysql.converters import conversions

from hermes_sessions.errors import InvalidInput, StatementRefused, StoreUnreachable

_CONNECT_SECONDS: Final = 10
#: A server that says nothing for so long is given up; far above what a statement may take.
_LEAST_READ_SECONDS: Final = 600.0
#: Seconds of rest after which a connection is asked whether it lives, and is closed.
_PINGED_AFTER: Final = 5.0
_CLOSED_AFTER: Final = 60.0
#: Rows that a statement matched are counted, changed or not; several statements in a round trip.
_FLAGS: Final = CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS
#: Names in double quotes; texts in single ones, where only the quote itself is special: writing
#: them so takes a fortieth of the time.
_SQL_MODE: Final = (
    "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,"
    "NO_AUTO_VALUE_ON_ZERO,ERROR_FOR_DIVISION_BY_ZERO"
)


class Options(NamedTuple):
    """How to reach the server, and what to ask of it."""

    host: str = "127.0.0.1"
    port: int = 3306
    user: str = ""
    password: str = ""
    database: str = ""
    #: A path; then host and port do not matter.
    unix_socket: str | None = None
    #: True: encrypted, and the server's certificate is checked. False: never. None: if it can be.
    ssl: bool | None = None
    #: A file of certificates to check the server's with; None: those of the system.
    ssl_ca: str | None = None
    max_connections: int = 10
    #: Seconds a unit of work waits for others, and one statement may take (0: no limit).
    lock_timeout: float = 16.0
    statement_timeout: float = 120.0
    read_only: bool = False

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={'***' if name == 'password' and value else repr(value)}"
            for name, value in self._asdict().items()
        )
        return f"Options({shown})"


class PoolExhausted(Exception):
    """All connections were in use for too long."""


class Pool(Protocol):
    """A pool of the application's: what it must offer."""

    def getconn(self, timeout: float) -> pymysql.Connection[Any]:
        """Return a connection that nobody else uses, outside any transaction, made with
        ``client_flag=CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS``. Its settings are changed: it
        is for this store alone.
        """

    def putconn(self, conn: pymysql.Connection[Any]) -> None:
        """Take it back; it may be closed."""


class ServerSession:
    """A connection, and what is known about the server's end of it."""

    __slots__ = (
        *("connection", "idle_since", "is_busy", "is_mariadb", "lock_wait", "max_packet"),
        "process",
    )

    def __init__(self, connection: pymysql.Connection[Any], options: Options) -> None:
        """Tell the server how we work."""
        self.connection = connection
        version: str = connection.server_version  # type: ignore[attr-defined]
        self.is_mariadb = "mariadb" in version.lower()
        self.lock_wait = whole_seconds(options.lock_timeout, self.is_mariadb)
        self.idle_since = 0.0
        #: Whether replies may still be under way, because something like Ctrl-C came in between:
        #: whoever asked next would take them for his.
        self.is_busy = False
        self.process = os.getpid()
        self.max_packet = 2**30
        # Sums of whole numbers arrive as decimals; they are whole numbers here, too.
        connection.decoders = {
            **connection.decoders,
            FIELD_TYPE.DECIMAL: _number,
            FIELD_TYPE.NEWDECIMAL: _number,
        }
        statements = [
            f"SET {', '.join(_settings(options, self))}",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SELECT @@max_allowed_packet",
        ]
        cursor = self.execute("; ".join(statements), skipped=2)
        [(self.max_packet,)] = cursor.fetchall()
        status: int = connection.server_status  # type: ignore[attr-defined]
        if not status & SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES:
            # The driver looks there for how texts are to be quoted.
            raise StoreUnreachable(
                "The server does not say which sql_mode it uses; a proxy may hide it. Connect to "
                "the server directly."
            )

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
        kind = pymysql.cursors.SSCursor if unbuffered else pymysql.cursors.Cursor
        cursor = self.connection.cursor(kind)
        self.is_busy = True
        try:
            cursor.execute(sql)
            for _ in range(skipped):
                cursor.nextset()
        except pymysql.Error:
            self.is_busy = False
            raise
        self.is_busy = False
        return cursor

    def run_script(self, sql: str, inserting: int) -> int:
        """Execute several statements in one round trip, without a cursor, which costs more than
        the smaller ones of them; return the id that the one number *inserting*, from 0, generated.
        """
        self._require_size(sql)
        connection = self.connection
        self.is_busy = True
        try:
            connection.query(sql)
            number = place = 0
            while True:
                if place == inserting:
                    number = int(connection.insert_id())  # type: ignore[no-untyped-call]
                if not self._has_more():
                    break
                connection.next_result()
                place += 1
        except pymysql.Error:
            self.is_busy = False
            raise
        self.is_busy = False
        return number

    def _has_more(self) -> bool:
        status: int = self.connection.server_status  # type: ignore[attr-defined]
        return bool(status & SERVER_STATUS.SERVER_MORE_RESULTS_EXISTS)

    def _require_size(self, sql: str) -> None:
        # A character takes at most four bytes: most statements need no count.
        if len(sql) * 4 >= self.max_packet and len(sql.encode("utf-8")) >= self.max_packet:
            raise StatementRefused(
                f"A statement of {len(sql):,} characters is larger than the {self.max_packet:,} "
                f"bytes that the server takes. Raise max_allowed_packet on the server."
            )

    @property
    def is_usable(self) -> bool:
        """Whether statements can be sent, as far as is known here."""
        return self.connection.open and not self.is_busy

    def is_alive(self) -> bool:
        """Ask the server, if nothing was heard of it for a while."""
        if time.monotonic() - self.idle_since < _PINGED_AFTER:
            return True
        try:
            self.connection.ping(reconnect=False)
        except (pymysql.Error, OSError):
            return False
        return True

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        if self.connection.open:
            self.connection.close()


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


def whole_seconds(patience: float, is_mariadb: bool) -> int:
    """Return how long the server lets a statement wait for a row, for a wait of *patience*.

    Only MariaDB knows how not to wait at all.
    """
    if patience < 0.5 and is_mariadb:
        return 0
    return min(max(1, math.ceil(patience)), 1_000_000)


def _settings(options: Options, session: ServerSession) -> list[str]:
    settings = [
        f"collation_connection = '{session.collation}'",
        f"sql_mode = '{_SQL_MODE}'",
        "autocommit = 1",
        f"innodb_lock_wait_timeout = {session.lock_wait}",
        f"lock_wait_timeout = {max(1, math.ceil(options.lock_timeout))}",
    ]
    if session.is_mariadb:
        settings.append(f"max_statement_time = {options.statement_timeout:f}")
    else:
        # There, only what reads can be stopped.
        settings.append(f"max_execution_time = {int(options.statement_timeout * 1000)}")
        settings.append("information_schema_stats_expiry = 0")
    return settings


class Connections:
    """Lends connections; thread-safe, and safe in a forked child, which gets its own."""

    def __init__(self, options: Options, pool: Pool | None = None) -> None:
        """*pool* is somebody else's: it is used, and not closed."""
        self.options = options
        self._given = pool
        self._prepared: weakref.WeakKeyDictionary[pymysql.Connection[Any], ServerSession] = (
            weakref.WeakKeyDictionary()
        )
        self._room = threading.Semaphore(options.max_connections)
        self._idle: deque[ServerSession] = deque()
        self._closed = False
        _forking.watch(self)

    @property
    def location(self) -> str:
        """The server and database, for people; never a secret."""
        if self._given is not None:
            return "MySQL (pool of the application)"
        options = self.options
        if options.unix_socket:
            return f"mysql:{options.unix_socket}/{options.database}"
        return f"mysql://{options.host}:{options.port}/{options.database}"

    # ── lending ───────────────────────────────────────────────────────────────────────────────

    def acquire(self, patience: float) -> ServerSession:
        """Return a session outside any transaction.

        Raises:
            pymysql.Error: the server cannot be reached.
            PoolExhausted: all connections were in use for *patience* seconds.
        """
        if self._given is not None:
            return self._adopt(self._given.getconn(timeout=patience))
        if not self._room.acquire(timeout=patience):
            raise PoolExhausted
        try:
            while True:
                try:
                    session = self._idle.pop()
                except IndexError:
                    return self.connect()
                if session.is_alive():
                    return session
                session.close()
        except BaseException:
            self._room.release()
            raise

    def release(self, session: ServerSession, *, keep: bool = True) -> None:
        """Take a session back; without *keep*, it is closed."""
        if session.process != os.getpid():
            _inherited.append(session)
            return
        keep = keep and session.is_usable
        if not keep:
            session.close()
        if self._given is not None:
            self._given.putconn(session.connection)
            return
        if not keep:
            # After one connection was lost, the others were probably lost with it.
            self._close_idle()
        elif self._closed:
            session.close()
        else:
            session.idle_since = time.monotonic()
            self._idle.append(session)
            self._close_oldest(session.idle_since)
        self._room.release()

    def renewed(self, lost: ServerSession, patience: float) -> ServerSession:
        """Return another session in the place of one that was lost."""
        lost.close()
        if self._given is not None:
            session = self._adopt(self._given.getconn(timeout=patience))
            self._given.putconn(lost.connection)
            return session
        self._close_idle()
        return self.connect()

    def _close_oldest(self, now: float) -> None:
        try:
            oldest = self._idle[0]
            if now - oldest.idle_since > _CLOSED_AFTER:
                self._idle.remove(oldest)
                oldest.close()
        except (IndexError, ValueError):
            return  # Somebody else was faster.

    def _close_idle(self) -> None:
        while True:
            try:
                session = self._idle.pop()
            except IndexError:
                return
            session.close()

    def connect(self) -> ServerSession:
        """Return a new session, outside the pool; whoever asked for it closes it."""
        connection = self._open()
        try:
            return ServerSession(connection, self.options)
        except BaseException:
            connection.close()
            raise

    def _open(self) -> pymysql.Connection[Any]:
        options = self.options
        if options.ssl is None and options.ssl_ca is None and _is_here(options):
            # Nothing leaves this machine. Some servers insist all the same.
            try:
                return _connection(options, ssl_disabled=True)
            except (RuntimeError, pymysql.err.OperationalError) as error:
                if not isinstance(error, RuntimeError) and error.args[0] not in _INSISTS:
                    raise
        try:
            return _connection(options, **_encryption(options))
        except RuntimeError as error:
            # The driver lacks a library that this way to log in needs.
            raise StoreUnreachable(
                f"{self.location}: {error}. Install it, or connect with ssl."
            ) from error

    def apart(self, patience: float) -> ServerSession:
        """Return a session for work that must not be part of a transaction under way."""
        return self.connect() if self._given is None else self.acquire(patience)

    def give_back(self, session: ServerSession) -> None:
        """Take back what `apart` gave."""
        if self._given is None:
            session.close()
        else:
            self.release(session)

    def _adopt(self, connection: pymysql.Connection[Any]) -> ServerSession:
        session = self._prepared.get(connection)
        if session is None:
            if connection.client_flag & _FLAGS != _FLAGS:
                raise InvalidInput(
                    "The connections of the pool must be made with client_flag="
                    "CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS (from pymysql.constants)."
                )
            session = ServerSession(connection, self.options)
            self._prepared[connection] = session
        return session

    # ── life ──────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Close what is idle; connections in use are closed by their users."""
        self._closed = True
        self._close_idle()

    def start_over_in_child(self) -> None:
        """Go on in a forked process without what was inherited, which belongs to the parent."""
        _inherited.append(list(self._idle))
        self._room = threading.Semaphore(self.options.max_connections)
        self._idle = deque()


#: Kept as long as the process lives: closing them would end the parent's sessions.
_inherited: Final[list[Any]] = []


class _Forking:
    def __init__(self) -> None:
        self._all: weakref.WeakSet[Connections] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._tell)

    def watch(self, connections: Connections) -> None:
        self._all.add(connections)

    def _tell(self) -> None:
        for connections in list(self._all):
            connections.start_over_in_child()


_forking: Final = _Forking()


#: The server wants encryption, or this way to log in does.
_INSISTS: Final = frozenset({1045, 2061, 3159, 4151})


def _is_here(options: Options) -> bool:
    return bool(options.unix_socket) or options.host in ("127.0.0.1", "::1", "localhost")


def _connection(options: Options, **encryption: Any) -> pymysql.Connection[Any]:
    return pymysql.connect(
        host=options.host,
        port=options.port,
        unix_socket=options.unix_socket,
        user=options.user or None,
        password=options.password.encode("utf-8"),
        database=options.database or None,
        charset="utf8mb4",
        autocommit=True,
        client_flag=_FLAGS,
        conv=conversions,
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_read_seconds(options),
        program_name="hermes-sessions",
        **encryption,
    )


def _read_seconds(options: Options) -> float | None:
    if options.statement_timeout <= 0:
        return None
    return max(_LEAST_READ_SECONDS, 2 * options.statement_timeout)


def _encryption(options: Options) -> dict[str, Any]:
    if options.ssl is False:
        return {"ssl_disabled": True}
    if options.ssl is None and options.ssl_ca is None:
        return {}
    try:
        return {"ssl": ssl.create_default_context(cafile=options.ssl_ca)}
    except OSError as error:
        raise InvalidInput(
            f"The file ssl_ca={options.ssl_ca!r} cannot be used: {error}."
        ) from error
