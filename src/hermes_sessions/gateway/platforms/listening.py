"""An HTTP server inside the gateway: listens, leaves signals alone, and waits for nobody for ever.

uvicorn limits how long a connection may idle between requests, but not how long somebody may take
to send the head of one. Whoever sends a byte a minute would keep a connection for as long as they
like; so a head has a time of its own here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from hermes_sessions.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Patience:
    """How long, and how many, are waited for."""

    #: Seconds in which the head of a request must have arrived.
    head_seconds: float = 10.0
    #: Seconds that a connection may be idle between requests.
    idle_seconds: int = 30
    #: Seconds in which answers may be finished when the server stops.
    stop_seconds: int = 3
    #: Connections at once; more are told to come back.
    connections: int = 1_000
    #: Bytes of a request's head.
    head_bytes: int = 32 * 1024


class Listener:
    """Serves an application from `start` to `stop`."""

    def __init__(
        self, app: ASGIApp, *, section: str, host: str, port: int, patience: Patience
    ) -> None:
        """*section* of the configuration is named when the address cannot be used. With port 0 a
        free one is taken; `port` then says which.
        """
        self._app = app
        self._section = section
        self._host = host
        self._patience = patience
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self.port = port

    @property
    def is_running(self) -> bool:
        """Whether somebody answers."""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Begin to listen.

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
        config = uvicorn.Config(
            self._app,
            http=type("Protocol", (_BoundedHead,), {"head_seconds": patience.head_seconds}),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            limit_concurrency=patience.connections,
            timeout_keep_alive=patience.idle_seconds,
            timeout_graceful_shutdown=patience.stop_seconds,
            h11_max_incomplete_event_size=patience.head_bytes,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        await self._server.is_ready.wait()

    async def stop(self) -> None:
        """Stop listening when answers are finished, or their time is over; a second call does
        nothing.
        """
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task


class _Server(uvicorn.Server):
    """Leaves signals to the gateway, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.is_ready.set()


class _BoundedHead(H11Protocol):
    """Closes a connection whose next request does not begin in time."""

    head_seconds: ClassVar[float]
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        """Give a head that has begun, or must begin, its time: once, however it drips."""
        if self.conn.their_state is not h11.IDLE:
            self._forget_head()
        elif self._head_timer is None and self._is_head_due():
            self._head_timer = self.loop.call_later(self.head_seconds, self._close)

    def _is_head_due(self) -> bool:
        # Between two requests, idling is allowed as long as nothing of the next has come.
        is_first = self.cycle is None
        return is_first or bool(self.conn.trailing_data[0])

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close(self) -> None:
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
