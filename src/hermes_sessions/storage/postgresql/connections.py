"""Connections to one server, from a pool, and how their transactions begin.

No state is kept in a server session, so a pooler in front of the server may change the session
between two transactions. Settings are sent when a connection starts; if a pooler refuses that, they
are sent at the start of every transaction.

A connection that was just used is kept for the next unit of work: the bookkeeping of the driver's
pool costs more than a statement.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool, PoolTimeout

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.postgresql.response_timeouts import ServerResponses
from hermes_sessions.storage.servers import driver
from hermes_sessions.storage.servers.driver import Mode
from hermes_sessions.storage.servers.response_timeouts import (
    KEEPALIVE,
    LOST_AFTER_SECONDS,
    ResponseTimeouts,
    time_limit,
)

logger = logging.getLogger(__name__)

#: Statements are prepared only on request, never because they are frequent: one plan for all values
#: makes some searches a thousand times slower.
_NEVER_BY_ITSELF: Final = 2**31 - 1
#: Idle connections that are kept outside the pool.
_KEPT: Final = 4
#: Seconds; the driver raises a smaller connect timeout to this one.
_SHORTEST_CONNECT: Final = 2

_LEVELS: Final[dict[Mode, str]] = {
    "isolated": "SERIALIZABLE",
    "by row locks": "READ COMMITTED",
    "reading": "REPEATABLE READ, READ ONLY",
}


class Options(NamedTuple):
    """How to reach the server, and what to ask of it."""

    #: A libpq connection string or URI.
    conninfo: str = ""
    schema: str = "public"
    max_connections: int = 10
    #: Seconds a unit of work waits for others, and one statement may take (0: no limit).
    lock_timeout: float = 16.0
    statement_timeout: float = 120.0
    #: on, off, local, remote_write, remote_apply; None leaves it to the server.
    synchronous_commit: str | None = None
    read_only: bool = False
    #: See `OpenOptions.seconds_left`.
    seconds_left: Callable[[], float] | None = None

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={'***' if name == 'conninfo' and value else repr(value)}"
            for name, value in self._asdict().items()
        )
        return f"Options({shown})"


class _Found(NamedTuple):
    """The state of an application's connection when it was borrowed."""

    autocommit: bool
    prepare_threshold: int | None
    row_factory: Any
    cursor_factory: Any


class Connections:
    """Lends connections; thread-safe, and safe in a forked child, which gets its own."""

    def __init__(self, options: Options, pool: ConnectionPool[Any] | None = None) -> None:
        """Use the caller's *pool* if one is given; it is never closed here."""
        self.options = options
        self._given = pool
        #: The state of connections of the application's pool when they were borrowed.
        self._found: dict[int, _Found] = {}
        #: Whether settings must be sent in every transaction.
        self.is_bare = pool is not None
        self._lock = threading.Lock()
        self._idle: deque[psycopg.Connection] = deque()
        self.limits = ResponseTimeouts(options, nodes=len(_hosts(options.conninfo)))
        self._answers: weakref.WeakKeyDictionary[psycopg.Connection, ServerResponses] = (
            weakref.WeakKeyDictionary()
        )
        self._pool: ConnectionPool[psycopg.Connection] | None = None
        #: Connections outside the pool: lent, or kept for the next unit of work.
        self._outside = 0
        self._closed = False
        driver.watch(self)

    @property
    def location(self) -> str:
        """The server and database, for display; contains no secret."""
        if self._given is not None:
            return "PostgreSQL (pool of the application)"
        facts = conninfo_to_dict(self.options.conninfo)
        host = facts.get("host") or facts.get("hostaddr") or "local socket"
        port = f":{facts['port']}" if facts.get("port") else ""
        return f"postgresql://{host}{port}/{facts.get('dbname') or ''}"

    @property
    def open_count(self) -> int:
        """How many connections this process has open; 0 if only the application knows."""
        if self._pool is None:
            return len(self._idle)
        return int(self._pool.get_stats()["pool_size"])

    def answers_on(self, connection: psycopg.Connection) -> ServerResponses:
        """Return the timeouts of a lent connection and the statements prepared on it.

        Behind a pooler (`is_bare`), nothing can be prepared.
        """
        return self._answers[connection]

    def _bind(self, connection: psycopg.Connection) -> None:
        # Only the application knows how to reach the server of its connection.
        is_alive = self._is_alive if self._given is None else None
        answers = self._answers[connection] = ServerResponses(self.limits, is_alive)
        answers.bind(connection)

    def _is_alive(self, silent: psycopg.Connection) -> bool:
        """Whether the server of a connection answers a new one, even with an error."""
        try:
            one = {
                "host": silent.info.host,
                "port": str(silent.info.port),
                "target_session_attrs": "any",
                "connect_timeout": str(round(self.limits.probe)),
            }
            psycopg.connect(make_conninfo(self._conninfo(), **one)).close()
        except psycopg.errors.ConnectionTimeout:
            return False
        except psycopg.Error as error:
            logger.debug("the server answers: %s", error)
        return True

    def beside(self) -> Connections:
        """Return connections for work while one of these is busy: separate ones, or these if the
        application's pool is used.
        """
        return self if self._given is not None else Connections(self.options)

    # ── lending ───────────────────────────────────────────────────────────────────────────────

    def acquire(self, patience: float) -> psycopg.Connection:
        """Return a connection outside any transaction.

        Raises:
            psycopg.OperationalError: the server cannot be reached.
            PoolTimeout: all connections were in use for *patience* seconds.
        """
        try:
            return self._idle.pop()
        except IndexError:
            pass
        if self._given is not None:
            return self._borrow_from(self._given, patience)
        with time_limit(self.limits.reach):
            connection = self._from_own_pool(patience)
        self._count(1)
        return connection

    def _from_own_pool(self, patience: float) -> psycopg.Connection:
        pool = self._own_pool()
        try:
            return pool.getconn(timeout=max(0.0, min(patience, self.limits.seconds_left())))
        except PoolTimeout:
            # The pool does not give the reason: if the server is unreachable, this raises it.
            self._connect().close()
            # The size includes connections that are being opened, which are not in use.
            if self._outside and pool.get_stats()["pool_size"] >= self.options.max_connections:
                raise
            # The server is slow, or it is available again and the pool has not noticed yet.
            return pool.getconn(timeout=max(_SHORTEST_CONNECT, self.limits.seconds_left()))

    def _count(self, taken: int) -> None:
        with self._lock:
            self._outside += taken

    def _give_back(
        self, pool: ConnectionPool[psycopg.Connection], lent: psycopg.Connection
    ) -> None:
        self._count(-1)
        pool.putconn(lent)

    def _borrow_from(self, pool: ConnectionPool[Any], patience: float) -> psycopg.Connection:
        connection: psycopg.Connection = pool.getconn(timeout=patience)
        self._found[id(connection)] = _Found(
            connection.autocommit,
            connection.prepare_threshold,
            connection.row_factory,
            connection.cursor_factory,
        )
        connection.autocommit = True
        connection.prepare_threshold = None
        connection.row_factory = tuple_row
        connection.cursor_factory = psycopg.Cursor
        self._bind(connection)
        return connection

    def _restore(self, connection: psycopg.Connection) -> None:
        self._answers.pop(connection).unbind(connection)
        found = self._found.pop(id(connection), None)
        if found is not None and not connection.closed:
            connection.autocommit = found.autocommit
            connection.prepare_threshold = found.prepare_threshold
            connection.row_factory = found.row_factory
            connection.cursor_factory = found.cursor_factory

    def release(self, connection: psycopg.Connection, *, keep: bool = True) -> None:
        """Take a connection back; without *keep*, it is closed."""
        if not keep:
            connection.close()
            self._forget_idle()
        elif self._given is None and len(self._idle) < _KEPT and not self._closed:
            self._idle.append(connection)
            return
        if self._given is not None:
            self._restore(connection)
            self._given.putconn(connection)
        elif self._pool is not None:
            self._give_back(self._pool, connection)
        else:
            connection.close()

    def _forget_idle(self) -> None:
        """Close the idle connections: when one was lost, the others probably were, too."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            connection.close()
            if self._pool is not None:
                self._give_back(self._pool, connection)

    def _own_pool(self) -> ConnectionPool[psycopg.Connection]:
        with self._lock:
            if self._pool is None:
                _quieten_pool()
                # The first connection shows errors, and whether there is a pooler.
                with self._connect() as first:
                    found = first.execute("SELECT current_setting('search_path')").fetchone()
                if found != (self.options.schema,):
                    self.is_bare = True  # A pooler accepted the settings and dropped them.
                self._pool = ConnectionPool(
                    self._conninfo(),
                    kwargs=self._arguments(),
                    configure=self._bind,
                    min_size=0,
                    max_size=self.options.max_connections,
                    max_idle=60.0,
                    # By default, the pool waits up to minutes between attempts while a server is
                    # unavailable, and hands out no connection although the server is back.
                    reconnect_timeout=self.options.lock_timeout,
                    num_workers=1,
                    open=True,
                    name="hermes-sessions",
                )
            return self._pool

    def _connect(self) -> psycopg.Connection:
        seconds = self.limits.seconds_left()
        try:
            connection = psycopg.connect(self._conninfo(seconds), **self._arguments())
        except psycopg.OperationalError as error:
            if self.is_bare or "startup parameter" not in str(error):
                raise
            logger.info("a pooler refuses settings at the start: they go into transactions")
            self.is_bare = True
            connection = psycopg.connect(self._conninfo(seconds), **self._arguments())
        self._bind(connection)
        return connection

    def _conninfo(self, seconds: float | None = None) -> str:
        """Return the connection string, with a timeout of *seconds* (None: as configured) in total
        for all hosts.
        """
        given = conninfo_to_dict(self.options.conninfo)
        options = str(given.get("options") or "")
        if not self.is_bare:
            settings = " ".join(f"-c {name}={_escaped(value)}" for name, value in self._settings())
            options = f"{options} {settings}".strip()
        hosts = len(_hosts(self.options.conninfo))
        limit = self.limits.connect if seconds is None else min(self.limits.connect, seconds)
        defaults: dict[str, Any] = {
            "application_name": "hermes-sessions",
            # The driver accepts whole seconds only, and 0 means no limit.
            "connect_timeout": max(1, round(limit / hosts)),
            "keepalives_idle": KEEPALIVE.idle,
            "keepalives_interval": KEEPALIVE.interval,
            "keepalives_count": KEEPALIVE.probes,
            "tcp_user_timeout": LOST_AFTER_SECONDS * 1000,
        }
        if hosts > 1 and not self.options.read_only:
            # After a failover, the former primary may be back as a standby.
            defaults["target_session_attrs"] = "read-write"
        settings_given = {name: str(value) for name, value in (defaults | given).items()}
        if seconds is not None and seconds < self.limits.connect:
            settings_given["connect_timeout"] = str(defaults["connect_timeout"])
        # Text is always UTF-8, regardless of the environment.
        settings_given["client_encoding"] = "UTF8"
        if options:
            settings_given["options"] = options
        return make_conninfo("", **settings_given)

    def _arguments(self) -> dict[str, Any]:
        # Behind a pooler, the next statement may run in another server session.
        return {
            "autocommit": True,
            "prepare_threshold": None if self.is_bare else _NEVER_BY_ITSELF,
        }

    # ── transactions ──────────────────────────────────────────────────────────────────────────

    def _settings(self) -> list[tuple[str, str]]:
        options = self.options
        found = [
            ("search_path", options.schema),
            ("lock_timeout", f"{int(options.lock_timeout * 1000)}ms"),
            ("statement_timeout", f"{int(options.statement_timeout * 1000)}ms"),
        ]
        if options.synchronous_commit is not None:
            found.append(("synchronous_commit", options.synchronous_commit))
        return found

    def beginning(self, mode: Mode, lock_timeout: float | None = None) -> bytes:
        """Return the statements that begin a transaction of this mode, in one round trip."""
        settings = dict(self._settings()) if self.is_bare else {}
        if lock_timeout is not None and lock_timeout != self.options.lock_timeout:
            settings["lock_timeout"] = f"{max(1, int(lock_timeout * 1000))}ms"
        parts = [f"BEGIN ISOLATION LEVEL {_LEVELS[mode]}"]
        if mode != "reading":
            milliseconds = driver.IDLE_WRITE_SECONDS * 1000
            parts.append(f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}")
        parts += [f"SET LOCAL {name} = {_quoted(name, value)}" for name, value in settings.items()]
        return "; ".join(parts).encode()

    # ── life ──────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Close idle connections; those in use are closed when they are released."""
        self._closed = True
        if self._pool is not None:
            while self._idle:
                self._give_back(self._pool, self._idle.pop())
            self._pool.close(timeout=1.0)

    def reset_in_child(self) -> None:
        """Drop the inherited connections in a forked child; they belong to the parent."""
        driver.keep_until_exit((self._pool, list(self._idle)))
        self._lock = threading.Lock()
        self._idle = deque()
        self._pool = None
        self._outside = 0


def _quieten_pool() -> None:
    """Silence the pool's warnings about lost connections, which are raised or retried elsewhere."""
    pool_logger = logging.getLogger("psycopg.pool")
    if pool_logger.level == logging.NOTSET:
        pool_logger.setLevel(logging.ERROR)


def _hosts(conninfo: str) -> list[str]:
    return str(conninfo_to_dict(conninfo).get("host") or "").split(",")


def _escaped(value: str) -> str:
    """Return a value as libpq's ``options`` takes it."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def _quoted(name: str, value: str) -> str:
    quote = sql.Identifier if name == "search_path" else sql.Literal
    return quote(value).as_string()


def require_schema_name(name: str) -> str:
    """Return *name* if it can be a schema's name without quoting.

    Raises:
        InvalidInput: it cannot.
    """
    if not name.isascii() or not name.replace("_", "a").isalnum() or not name.islower():
        raise InvalidInput(
            f"The schema name {name!r} may hold lower-case letters, digits and _ only."
        )
    return name
