"""Connections to one server, from a small pool of our own.

Settings are sent once, when a connection starts. A connection that was idle for a while is checked
before it is used; if it was lost, it is dropped, and so are the other idle ones.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import pymysql
from pymysql.constants import CLIENT
from pymysql.converters import conversions

from hermes_sessions.errors import InvalidInput, StoreUnreachable
from hermes_sessions.storage.mysql.error_translation import is_node_unavailable
from hermes_sessions.storage.mysql.response_timeouts import ServerResponses
from hermes_sessions.storage.mysql.server_session import ServerSession
from hermes_sessions.storage.servers import driver
from hermes_sessions.storage.servers.response_timeouts import (
    ResponseTimeouts,
    time_limit,
)

logger = logging.getLogger(__name__)

#: Seconds after which an idle connection is closed.
_CLOSED_AFTER: Final = 60.0
#: Seconds during which a node of a cluster that failed is tried after all others.
_AVOIDED_SECONDS: Final = 30.0
#: Seconds between two log lines about a node that stays unavailable.
_LOGGED_EVERY: Final = 60.0
#: Count the rows that a statement matched, changed or not; send several statements at once.
_FLAGS: Final = CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS


#: The host and port of a server.
Node = tuple[str, int]


class Options(NamedTuple):
    """How to reach the server, and what to ask of it."""

    host: str = "127.0.0.1"
    port: int = 3306
    user: str = ""
    password: str = ""
    database: str = ""
    #: Further nodes of the same cluster, tried in this order when the first one is unavailable.
    other_nodes: tuple[Node, ...] = ()
    #: A path; host and port are ignored if it is set.
    unix_socket: str | None = None
    #: True: encrypt, and verify the server's certificate. False: never. None: if possible.
    ssl: bool | None = None
    #: A file of CA certificates to verify the server's with; None: those of the system.
    ssl_ca: str | None = None
    max_connections: int = 10
    #: Seconds a unit of work waits for others, and one statement may take (0: no limit).
    lock_timeout: float = 16.0
    statement_timeout: float = 120.0
    read_only: bool = False
    #: See `OpenOptions.seconds_left`.
    seconds_left: Callable[[], float] | None = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All addresses, the preferred one first."""
        return ((self.host, self.port), *self.other_nodes)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={'***' if name == 'password' and value else repr(value)}"
            for name, value in self._asdict().items()
        )
        return f"Options({shown})"


class PoolExhausted(Exception):
    """All connections were in use for too long."""


class Pool(Protocol):
    """The methods that an application's pool must have."""

    def getconn(self, timeout: float) -> pymysql.Connection[Any]:
        """Return an unused connection, outside any transaction, made with
        ``client_flag=CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS``. The store changes its session
        settings, so the connection must not be shared with other code.
        """

    def putconn(self, conn: pymysql.Connection[Any]) -> None:
        """Take it back; it may be closed."""


class NodeLog:
    """Logs that a node became unavailable, and once a minute that it still is, with a count: during
    an outage, every write and every heartbeat tries the nodes again.
    """

    def __init__(self) -> None:
        #: By node: the time of the last log line, and the number of failures since.
        self._failing: dict[Node, tuple[float, int]] = {}

    def failed(self, node: Node, error: Exception) -> None:
        """Note that connecting failed, and the next node is tried."""
        now = time.monotonic()
        since = self._failing.get(node)
        if since is None:
            logger.warning("%s:%s is unavailable, trying the next node: %s", *node, error)
            self._failing[node] = (now, 0)
            return
        logged_at, failures = since[0], since[1] + 1
        if now - logged_at < _LOGGED_EVERY:
            self._failing[node] = (logged_at, failures)
            return
        logger.warning("%s:%s is still unavailable (%d more attempts): %s", *node, failures, error)
        self._failing[node] = (now, 0)

    def worked(self, node: Node) -> None:
        """Note that a connection was made."""
        if self._failing.pop(node, None) is not None:
            logger.info("%s:%s is available again", *node)


class Connections:
    """Lends connections; thread-safe, and safe in a forked child, which gets its own."""

    def __init__(self, options: Options, pool: Pool | None = None) -> None:
        """Use the caller's *pool* if one is given; it is never closed here."""
        self.options = options
        self._given = pool
        self._prepared: weakref.WeakKeyDictionary[pymysql.Connection[Any], ServerSession] = (
            weakref.WeakKeyDictionary()
        )
        self.limits = ResponseTimeouts(options, stops_writes=False, nodes=len(options.nodes))
        self._room = threading.Semaphore(options.max_connections)
        self._idle: deque[ServerSession] = deque()
        self._closed = False
        #: When a node failed last.
        self._failed_at: dict[Node, float] = {}
        self._node_log = NodeLog()
        driver.watch(self)

    @property
    def location(self) -> str:
        """The server and database, for display; contains no secret."""
        if self._given is not None:
            return "MySQL (pool of the application)"
        options = self.options
        if options.unix_socket:
            return f"mysql:{options.unix_socket}/{options.database}"
        hosts = ",".join(f"{host}:{port}" for host, port in options.nodes)
        return f"mysql://{hosts}/{options.database}"

    def beside(self) -> Connections:
        """Return connections for work while one of these is busy: separate ones, or these if the
        application's pool is used.
        """
        return self if self._given is not None else Connections(self.options)

    # ── lending ───────────────────────────────────────────────────────────────────────────────

    def acquire(self, patience: float) -> ServerSession:
        """Return a session outside any transaction.

        Raises:
            pymysql.Error: the server cannot be reached.
            PoolExhausted: all connections were in use for *patience* seconds.
        """
        if self._given is not None:
            return self._adopt(self._given.getconn(timeout=patience))
        with time_limit(self.limits.reach):
            return self._idle_or_new(patience)

    def _idle_or_new(self, patience: float) -> ServerSession:
        if not self._room.acquire(timeout=max(0.0, min(patience, self.limits.seconds_left()))):
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
                # The others were probably lost, too; checking each of them would take long.
                self._close_idle()
        except BaseException:
            self._room.release()
            raise

    def release(self, session: ServerSession, *, keep: bool = True) -> None:
        """Take a session back; without *keep*, it is closed."""
        if session.process != os.getpid():
            driver.keep_until_exit(session)
            return
        keep = keep and session.is_usable
        if not keep:
            self._discard(session)
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
        """Return a new session in place of one that was lost."""
        self._discard(lost)
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
            return  # Another thread was faster.

    def _close_idle(self) -> None:
        while True:
            try:
                session = self._idle.pop()
            except IndexError:
                return
            session.close()

    def _discard(self, session: ServerSession) -> None:
        session.close()
        if session.is_lost and session.node is not None:
            self._failed_at[session.node] = time.monotonic()

    def connect(self) -> ServerSession:
        """Return a new session outside the pool, which the caller must close.

        Nodes are tried in the order given, those that failed lately after the others.
        """
        lately = time.monotonic() - _AVOIDED_SECONDS
        nodes = sorted(
            self.options.nodes,
            key=lambda node: failed if (failed := self._failed_at.get(node, 0.0)) > lately else 0.0,
        )
        for node in nodes[:-1]:
            try:
                return self._connect_to(node)
            except pymysql.Error as error:
                if not is_node_unavailable(error):
                    raise
                self._node_log.failed(node, error)
        return self._connect_to(nodes[-1])

    def _connect_to(self, node: Node) -> ServerSession:
        try:
            connection = self._open(
                self.options._replace(host=node[0], port=node[1]),
                # All nodes of a cluster share the time that one server has.
                self.limits.connect / len(self.options.nodes),
            )
            try:
                session = self._session(connection, partial(self._is_alive, node))
            except BaseException:
                connection.close()
                raise
        except pymysql.Error:
            self._failed_at[node] = time.monotonic()
            raise
        self._failed_at.pop(node, None)
        self._node_log.worked(node)
        session.node = node
        return session

    def _is_alive(self, node: Node) -> bool:
        """Whether a server answers a new connection, even with an error."""
        options = self.options._replace(host=node[0], port=node[1])
        try:
            self._open(options, self.limits.probe).close()
        except pymysql.Error as error:
            return not isinstance(error.__context__, TimeoutError)
        return True

    def _session(
        self, connection: pymysql.Connection[Any], is_alive: Callable[[], bool] | None = None
    ) -> ServerSession:
        return ServerSession(
            connection,
            lock_timeout=self.options.lock_timeout,
            statement_timeout=self.options.statement_timeout,
            answers=ServerResponses(connection, self.limits, is_alive),
        )

    def _open(self, options: Options, seconds: float) -> pymysql.Connection[Any]:
        if options.ssl is None and options.ssl_ca is None and _is_here(options):
            # No data leaves this machine. Some servers require encryption all the same.
            try:
                return _connection(options, self._limited(seconds), ssl_disabled=True)
            except (RuntimeError, pymysql.err.OperationalError) as error:
                if not isinstance(error, RuntimeError) and error.args[0] not in _INSISTS:
                    raise
        try:
            return _connection(options, self._limited(seconds), **_encryption(options))
        except RuntimeError as error:
            # The driver lacks a library for this authentication method.
            raise StoreUnreachable(
                f"{self.location}: {error}. Install it, or connect with ssl."
            ) from error

    def _limited(self, seconds: float) -> float:
        # To the driver, 0 means something else.
        return max(0.01, min(seconds, self.limits.seconds_left()))

    def apart(self, patience: float) -> ServerSession:
        """Return a session for work outside the current transaction."""
        return self.connect() if self._given is None else self.acquire(patience)

    def give_back(self, session: ServerSession) -> None:
        """Take back a session from `apart`."""
        if self._given is None:
            session.close()
        else:
            self.release(session)

    def _adopt(self, connection: pymysql.Connection[Any]) -> ServerSession:
        session = self._prepared.get(connection)
        if session is None or not session.is_as_prepared:
            if connection.client_flag & _FLAGS != _FLAGS:
                raise InvalidInput(
                    "The connections of the pool must be made with client_flag="
                    "CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS (from pymysql.constants)."
                )
            session = self._session(connection)
            self._prepared[connection] = session
        return session

    # ── life ──────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Close idle connections; those in use are closed when they are released."""
        self._closed = True
        self._close_idle()

    def reset_in_child(self) -> None:
        """Drop the inherited connections in a forked child; they belong to the parent."""
        driver.keep_until_exit(list(self._idle))
        self._room = threading.Semaphore(self.options.max_connections)
        self._idle = deque()


#: The server or the authentication method requires encryption.
_INSISTS: Final = frozenset({1045, 2061, 3159, 4151})


def _is_here(options: Options) -> bool:
    return bool(options.unix_socket) or options.host in ("127.0.0.1", "::1", "localhost")


def _connection(options: Options, seconds: float, **encryption: Any) -> pymysql.Connection[Any]:
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
        connect_timeout=seconds,
        # Until it is connected: a frozen server accepts the connection and never responds.
        read_timeout=seconds,
        write_timeout=seconds,
        program_name="hermes-sessions",
        **encryption,
    )


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
