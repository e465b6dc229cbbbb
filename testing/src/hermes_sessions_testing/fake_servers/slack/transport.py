"""The transport of the fake Slack: HTTP and WebSockets, with aiohttp."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from aiohttp import WSMsgType, web

_PATIENCE: Final = 60.0


class ApiCall(NamedTuple):
    """A call of the Web API."""

    method: str
    params: Mapping[str, Any]
    token: str | None


class ApiAnswer(NamedTuple):
    """A response."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = {}
    content_type: str = "application/json"
    #: Drop the connection instead of responding.
    is_cut: bool = False
    #: Never respond.
    is_held: bool = False


class SlackBackend(Protocol):
    """What the transport calls, from its own thread."""

    def answer(self, call: ApiCall) -> ApiAnswer:
        """Return the response to a Web API call."""

    def file(self, name: str, token: str | None) -> ApiAnswer:
        """Return the response to a request for a file."""

    def outgoing(self, link: Link) -> list[str]:
        """Return the frames to send on a WebSocket."""

    def incoming(self, frame: str) -> None:
        """Handle a received frame."""

    def linked(self) -> None:
        """Handle a new WebSocket."""


class Link:
    """One WebSocket of Socket Mode."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self.socket = socket
        self.request = request
        self.is_due = asyncio.Event()
        #: Ids of the envelopes sent on it.
        self.sent: set[str] = set()


class SlackTransport:
    """A local server that listens from its creation until `close`."""

    def __init__(self, exchange: SlackBackend) -> None:
        self._exchange = exchange
        self._links: set[Link] = set()
        self._runner: web.AppRunner | None = None
        self._is_ready = threading.Event()
        self._is_over = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self.port = 0
        self._thread = threading.Thread(target=self._main, name="slack-server", daemon=True)
        self._thread.start()
        assert self._is_ready.wait(_PATIENCE), "the server did not start"

    @property
    def address(self) -> str:
        """The address it listens on."""
        return f"127.0.0.1:{self.port}"

    def wake(self) -> None:
        """Check for frames to send."""

        def wake() -> None:
            for link in self._links:
                link.is_due.set()

        self._do(wake)

    def drop(self) -> None:
        """Drop every open connection without a close frame."""

        def drop() -> None:
            server = self._runner.server if self._runner else None
            for connection in server.connections if server else ():
                if connection.transport is not None:
                    connection.transport.abort()

        self._do(drop)

    def drop_sockets(self) -> None:
        """Drop every open WebSocket without a close frame."""

        def drop() -> None:
            for link in self._links:
                if link.request.transport is not None:
                    link.request.transport.abort()

        self._do(drop)

    def tell(self, frame: Mapping[str, Any]) -> None:
        """Send a frame on every WebSocket."""

        async def tell() -> None:
            for link in list(self._links):
                with suppress(ConnectionError):
                    await link.socket.send_str(json.dumps(frame))

        asyncio.run_coroutine_threadsafe(tell(), self._loop).result(_PATIENCE)

    def close(self) -> None:
        """Stop the server. A second call does nothing."""
        if self._thread.is_alive():
            self.drop()
            self._do(self._is_over.set)
            self._thread.join(_PATIENCE)

    def _do(self, work: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # it is closed
            self._loop.call_soon_threadsafe(work)

    # ── in its thread ─────────────────────────────────────────────────────────────────────────

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _serve(self) -> None:
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_get("/files/{name}", self._file)
        app.router.add_get("/link", self._link)
        self._runner = runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._is_ready.set()
        await self._is_over.wait()
        await runner.cleanup()

    async def _api(self, request: web.Request) -> web.StreamResponse:
        params: dict[str, Any] = dict(request.query)
        if request.content_type == "application/json":
            params |= await request.json()
        else:
            params |= {name: str(value) for name, value in (await request.post()).items()}
        call = ApiCall(request.match_info["method"], params, _token_of(request))
        return await self._respond(request, self._exchange.answer(call))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        answer = self._exchange.file(request.match_info["name"], _token_of(request))
        return await self._respond(request, answer)

    async def _respond(self, request: web.Request, answer: ApiAnswer) -> web.StreamResponse:
        if answer.is_held:
            await self._is_over.wait()
        if answer.is_cut and request.transport is not None:
            request.transport.abort()
        return web.Response(
            body=answer.body,
            status=answer.status,
            headers=dict(answer.headers),
            content_type=answer.content_type,
        )

    async def _link(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=1024**2)
        await socket.prepare(request)
        link = Link(socket, request)
        self._links.add(link)
        self._exchange.linked()
        sending = asyncio.create_task(self._send(link))
        try:
            hello = {
                "type": "hello",
                "num_connections": len(self._links),
                "debug_info": {"host": "applink", "approximate_connection_time": 18060},
                "connection_info": {"app_id": "A0TESTAPP"},
            }
            await socket.send_str(json.dumps(hello))
            link.is_due.set()
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    self._exchange.incoming(frame.data)
        except ConnectionError:
            pass  # dropped before the hello frame
        finally:
            self._links.discard(link)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        return socket

    async def _send(self, link: Link) -> None:
        while True:
            await link.is_due.wait()
            link.is_due.clear()
            for frame in self._exchange.outgoing(link):
                await link.socket.send_str(frame)


def _token_of(request: web.Request) -> str | None:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if kind == "Bearer" else None
