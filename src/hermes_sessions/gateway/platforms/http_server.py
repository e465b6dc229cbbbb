"""An HTTP server inside the gateway, with time limits, that leaves signals alone.

uvicorn limits how long a connection may idle between requests, but not how long a client may take
to send the head of one, and it refuses everything when there are too many connections. Here, a head
has a timeout; with too many connections, idle ones are closed first; and probes are always
answered.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar, Final

import h11
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes_sessions.errors import ConfigError
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

#: Connections beyond the limit while every other one waits for an answer.
_ROOM_FOR_PROBES: Final = 32
#: Open files of the process that are not connections of this server: those of the store, of
#: platforms, and of other servers.
_OTHER_FILES: Final = 512
#: Connections that are accepted in one step. More would need a file each before the first of them
#: could be closed.
_ACCEPTED_AT_ONCE: Final = 32
#: Connections that the system keeps until they are accepted.
_BACKLOG: Final = 2_048
_FULL: Final = PlainTextResponse(
    "Too many requests at once. Try again later.\n",
    status_code=503,
    headers={"Retry-After": "5", "Connection": "close"},
)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Time and connection limits of a server."""

    #: Seconds in which the head of a request must have arrived.
    head_seconds: float = 10.0
    #: Seconds that a connection may be idle between requests.
    idle_seconds: int = 30
    #: Seconds in which answers may be finished when the server stops.
    stop_seconds: int = 3
    #: Concurrent connections and requests; more get 503. A connection without a request is closed
    #: to make room for others.
    connections: int = 1_000
    #: Bytes of a request's head.
    head_bytes: int = 32 * 1024


class Listener:
    """Serves an application from `start` to `stop`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        section: str,
        host: str,
        port: int,
        patience: ServerLimits,
        probes: Collection[str] = (),
    ) -> None:
        """*section* of the configuration is named when the address cannot be used. With port 0, a
        free one is used; `port` tells which. *probes* are paths that are always answered.
        """
        self._app = app
        self._probes = probes
        self._section = section
        self._host = host
        self._patience = patience
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self.port = port

    @property
    def is_running(self) -> bool:
        """Whether it serves requests."""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Start to listen.

        Raises:
            ConfigError: the address cannot be used.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            listener = socket.create_server((self._host, self.port), family=family)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"{self._section}: cannot listen on {self._host} port {self.port}: {error}. "
                f"Set host and port to an address of this machine that is free."
            ) from error
        # Connections inherit it. asyncio sets it only where it made the socket itself, and without
        # it an answer of two writes takes as long as the other side delays its acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = listener.getsockname()[1]
        patience = self._patience
        most = _make_room(patience.connections, self._section)
        bounds = {"head_seconds": patience.head_seconds, "others": _Connections(most)}
        config = uvicorn.Config(
            _Bounded(self._app, most, self._probes),
            http=type("Protocol", (_BoundedHead,), bounds),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_keep_alive=patience.idle_seconds,
            timeout_graceful_shutdown=patience.stop_seconds,
            backlog=_ACCEPTED_AT_ONCE,
            h11_max_incomplete_event_size=patience.head_bytes,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        await self._server.is_ready.wait()

    async def stop(self) -> None:
        """Stop listening after answers are finished or timed out; a second call does nothing."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task


class _Server(uvicorn.Server):
    """Leaves signals to the gateway, and reports when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        for listener in sockets or ():
            # asyncio uses one number for both.
            listener.listen(_BACKLOG)
        self.is_ready.set()


class _Connections:
    """The connections of a server; closes some to make room for new ones.

    Connections without a request are closed first, oldest first: opening connections costs
    nothing, and must not keep out a client that sends a request.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: set[_BoundedHead] = set()
        #: In the order in which they began to wait for a head, or to idle.
        self._without_head: dict[_BoundedHead, None] = {}
        self._idle: dict[_BoundedHead, None] = {}

    def add(self, connection: _BoundedHead) -> None:
        """Count a new connection, and close another one if there are too many."""
        self._all.add(connection)
        if len(self._all) > self._most:
            first = next(iter(self._without_head), None) or next(iter(self._idle), None)
            if first is None and len(self._all) > self._most + _ROOM_FOR_PROBES:
                first = connection
            if first is not None:
                self.remove(first)
                first.close_now()

    def sort(self, connection: _BoundedHead, *, is_busy: bool, is_head_due: bool) -> None:
        """Record what a connection does."""
        if connection not in self._all:
            return
        for of, is_one in (
            (self._without_head, is_head_due and not is_busy),
            (self._idle, not is_head_due and not is_busy),
        ):
            if is_one:
                of.setdefault(connection)
            else:
                of.pop(connection, None)

    def remove(self, connection: _BoundedHead) -> None:
        """Forget a connection."""
        self._all.discard(connection)
        self._without_head.pop(connection, None)
        self._idle.pop(connection, None)


class _BoundedHead(H11Protocol):
    """Closes a connection whose next request is late, or whose place is needed."""

    head_seconds: ClassVar[float]
    #: Of the same server.
    others: ClassVar[_Connections]
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.others.add(self)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        self.others.remove(self)
        super().connection_lost(exc)

    def close_now(self) -> None:
        """Close the connection without an answer: there is no request."""
        self._forget_head()
        self.transport.abort()

    @property
    def _is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _watch_head(self) -> None:
        """Start the timeout of a request's head, once per head."""
        is_due = self._is_head_due()
        self.others.sort(self, is_busy=self._is_busy, is_head_due=is_due)
        if self._is_busy or not is_due:
            self._forget_head()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self._close)

    def _is_head_due(self) -> bool:
        # Between two requests, a connection may idle until the next one starts. One that was
        # answered before its whole body arrived is not idle.
        is_first = self.cycle is None
        is_idle = self.conn.their_state is h11.IDLE
        return is_first or not is_idle or bool(self.conn.trailing_data[0])

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close(self) -> None:
        if not (self._is_busy or self.transport.is_closing()):
            self.transport.close()


class _Bounded:
    """Limits concurrent requests; more get 503, except probes."""

    def __init__(self, app: ASGIApp, most: int, probes: Collection[str]) -> None:
        self._app = app
        self._most = most
        self._probes = frozenset(probes)
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in self._probes:
            await self._app(scope, receive, send)
            return
        if self._running >= self._most:
            await _FULL(scope, receive, send)
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1


def _make_room(wanted: int, section: str) -> int:
    """Return the maximum number of connections: as requested, unless this process may open too few
    files. The store needs some of them.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft < needed:
            room = max(soft - _OTHER_FILES, soft // 4)
            logger.warning(
                "%s: limited to %d connections instead of %d, because the process may open %d "
                "files; raise that limit (ulimit -n, LimitNOFILE)",
                section,
                room,
                wanted,
                soft,
            )
            return room
    return wanted
