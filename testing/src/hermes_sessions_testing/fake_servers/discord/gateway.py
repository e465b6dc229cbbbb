"""The gateway of the fake Discord: WebSockets that send events to bots."""

from __future__ import annotations

import asyncio
import json
import secrets
import zlib
from collections.abc import Callable
from typing import Any, Final

from aiohttp import WSMsgType, web

from hermes_sessions_testing.fake_servers.discord.state import BOT, GUILD, DiscordState, Record

_DISPATCH: Final = 0
_HEARTBEAT: Final = 1
_IDENTIFY: Final = 2
_RESUME: Final = 6
_RECONNECT: Final = 7
_INVALID: Final = 9
_HELLO: Final = 10
_ACKNOWLEDGED: Final = 11

GUILD_MESSAGES: Final = 1 << 9
DIRECT_MESSAGES: Final = 1 << 12
MESSAGE_CONTENT: Final = 1 << 15


class _Socket:
    """One WebSocket. Frames are sent in order, compressed if the bot asked for it."""

    def __init__(self, socket: web.WebSocketResponse, transport: Any, is_compressed: bool) -> None:
        self.socket = socket
        self.transport = transport
        self.outgoing: asyncio.Queue[str | int] = asyncio.Queue()
        self._compressor = zlib.compressobj() if is_compressed else None

    async def write_all(self) -> None:
        while True:
            frame = await self.outgoing.get()
            if isinstance(frame, int):
                await self.socket.close(code=frame)
                return
            if self._compressor is None:
                await self.socket.send_str(frame)
            else:
                packed = self._compressor.compress(frame.encode("utf-8", "surrogatepass"))
                await self.socket.send_bytes(packed + self._compressor.flush(zlib.Z_SYNC_FLUSH))


class _Session:
    """The events of a bot since it identified, to replay when it resumes."""

    def __init__(self, intents: int) -> None:
        self.id = secrets.token_hex(16)
        self.intents = intents
        self.told: list[str] = []
        self.socket: _Socket | None = None

    def tell(self, event: str, data: Any) -> None:
        number = len(self.told) + 1
        frame = json.dumps({"op": _DISPATCH, "t": event, "s": number, "d": data})
        self.told.append(frame)
        if self.socket is not None:
            self.socket.outgoing.put_nowait(frame)

    def hears(self, event: str, data: Any) -> Any:
        """Return the event as this bot's intents allow it; None if it did not subscribe."""
        if not event.startswith("MESSAGE_") or not isinstance(data, dict):
            return data
        needed = GUILD_MESSAGES if data.get("guild_id") else DIRECT_MESSAGES
        if not self.intents & needed:
            return None
        is_private = not data.get("guild_id")
        return data if is_private or self.intents & MESSAGE_CONTENT else {**data, "content": ""}


class FakeDiscordGateway:
    """The WebSocket endpoint. All methods run on the server's event loop."""

    def __init__(self, state: DiscordState, address: Callable[[], str]) -> None:
        self._state = state
        self._address = address
        self._sessions: dict[str, _Session] = {}
        self._sockets: set[_Socket] = set()
        #: Intents that the developer portal allows.
        self.allowed_intents = ~0
        #: Close codes for the next bots that identify.
        self.refusals: list[int] = []
        #: What bots did: ``connect``, ``identify``, ``resume``, ``heartbeat``.
        self.done: list[str] = []

    def tell(self, event: str, data: Any) -> None:
        """Send an event to every bot; disconnected bots get it when they resume."""
        for session in self._sessions.values():
            heard = session.hears(event, data)
            if heard is not None or data is None:
                session.tell(event, heard)

    def babble(self, frame: str) -> None:
        """Send a raw frame to every bot."""
        for socket in self._sockets:
            socket.outgoing.put_nowait(frame)

    def ask(self, op: int, data: Any = None) -> None:
        """Send an opcode to every bot: reconnect, or invalid session."""
        if op == _INVALID and not data:
            self._sessions.clear()
        self.babble(json.dumps({"op": op, "d": data, "s": None, "t": None}))

    def close_all(self, code: int) -> None:
        """Close every connection with a close code."""
        for socket in self._sockets:
            socket.outgoing.put_nowait(code)

    def drop_all(self, *, forget: bool) -> None:
        """Drop every connection; with *forget*, sessions cannot be resumed."""
        if forget:
            self._sessions.clear()
        for socket in list(self._sockets):
            if socket.transport is not None:
                socket.transport.abort()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one bot until it disconnects."""
        if self._state.next_fault("connect") is not None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        is_compressed = request.query.get("compress") == "zlib-stream"
        connected = _Socket(socket, request.transport, is_compressed)
        self._sockets.add(connected)
        writing = asyncio.create_task(connected.write_all())
        try:
            self._note("connect")
            hello = {"op": _HELLO, "d": {"heartbeat_interval": 41250}}
            connected.outgoing.put_nowait(json.dumps(hello))
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._take(connected, json.loads(message.data))
        finally:
            self._sockets.discard(connected)
            for session in self._sessions.values():
                if session.socket is connected:
                    session.socket = None
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        return socket

    def _take(self, socket: _Socket, said: Record) -> None:
        match said.get("op"), said.get("d"):
            case 1, _:
                self._note("heartbeat")
                socket.outgoing.put_nowait(json.dumps({"op": _ACKNOWLEDGED}))
            case 2, dict(data):
                self._note("identify")
                self._identify(socket, data)
            case 6, dict(data):
                self._note("resume")
                self._resume(socket, data)
            case _:
                socket.outgoing.put_nowait(4001)

    def _identify(self, socket: _Socket, data: Record) -> None:
        intents = int(data.get("intents", 0))
        if self.refusals:
            socket.outgoing.put_nowait(self.refusals.pop(0))
        elif data.get("token") != self._state.token:
            socket.outgoing.put_nowait(4004)
        elif intents & ~self.allowed_intents:
            socket.outgoing.put_nowait(4014)
        else:
            session = _Session(intents)
            self._sessions[session.id] = session
            session.socket = socket
            ready = {
                "v": 10,
                "user": BOT,
                "guilds": [{"id": GUILD, "unavailable": True}],
                "private_channels": [],
                "session_id": session.id,
                "resume_gateway_url": self._address(),
                "application": {"id": BOT["id"], "flags": 0},
            }
            session.tell("READY", ready)
            session.tell("GUILD_CREATE", self._state.guild())

    def _resume(self, socket: _Socket, data: Record) -> None:
        session = self._sessions.get(str(data.get("session_id")))
        if session is None or data.get("token") != self._state.token:
            socket.outgoing.put_nowait(json.dumps({"op": _INVALID, "d": False}))
            return
        session.socket = socket
        for frame in session.told[int(data.get("seq") or 0) :]:
            socket.outgoing.put_nowait(frame)
        session.tell("RESUMED", {})

    def _note(self, what: str) -> None:
        with self._state.changed:
            self.done.append(what)
            self._state.changed.notify_all()
