"""Clients on this machine, over a unix socket."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.local import unix_socket
from hermes_sessions.gateway.platforms.local.client_connection import ClientConnection
from hermes_sessions.gateway.platforms.local.mapping import PLATFORM, line_of
from hermes_sessions.gateway.platforms.local.settings import LocalSettings
from hermes_sessions.gateway.platforms.port import (
    Adapter,
    Limits,
    LoginRefused,
    Services,
    Unreachable,
)

T = TypeVar("T")

#: How long a client may take to confirm that it has shown a message.
SEEN_SECONDS: Final = 10.0
#: How many unseen messages are remembered, and as many seen ones. The outbox has all of them; these
#: are for clients that reconnect at once.
_REMEMBERED: Final = 200


class LocalAdapter(Adapter):
    """A socket in the home of the user who runs the gateway.

    A reply is delivered when a client confirms that it has shown it. A reply without a client in
    its chat goes to the next client there.
    """

    name: ClassVar[str] = PLATFORM.value
    limits: ClassVar[Limits] = Limits(text=100_000, typing=True, idempotent=True)

    def __init__(
        self,
        settings: LocalSettings,
        *,
        uid: int | None = None,
        seen_seconds: float = SEEN_SECONDS,
    ) -> None:
        """Only the user with this *uid* may connect; by default, the user who runs the gateway."""
        self._settings = settings
        self._uid = os.geteuid() if uid is None else uid
        self._seen_seconds = seen_seconds
        self._server: asyncio.Server | None = None
        self._inode = 0
        self._connections: dict[ClientConnection, asyncio.Task[None]] = {}
        #: Unseen texts and their chats, by key.
        self._unseen: OrderedDict[str, tuple[Target, str]] = OrderedDict()
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._waiting: dict[str, asyncio.Event] = {}

    @property
    def owner_id(self) -> str | None:
        """See `Adapter.owner_id`; a client that gives another name is another user."""
        return str(self._uid)

    # ── connecting ────────────────────────────────────────────────────────────────────────────

    async def connect(self, services: Services) -> None:
        """See `Adapter.connect`."""
        try:
            listener = await asyncio.to_thread(unix_socket.listen_at, self._settings.socket)
        except ConfigError as error:
            raise LoginRefused(str(error)) from error
        self._inode = self._settings.socket.lstat().st_ino

        async def enter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._enter(services, reader, writer)

        self._server = await asyncio.start_unix_server(
            enter, sock=listener, limit=self._settings.max_line_bytes
        )

    async def disconnect(self) -> None:
        """See `Adapter.disconnect`."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        await asyncio.to_thread(unix_socket.remove, self._settings.socket, self._inode)
        for connection in list(self._connections):
            connection.end()
        await asyncio.gather(*self._connections.values(), return_exceptions=True)
        await server.wait_closed()

    @property
    def is_connected(self) -> bool:
        """See `Adapter.is_connected`."""
        return self._server is not None and self._server.is_serving()

    async def _enter(
        self, services: Services, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = ClientConnection(services, reader, writer, came=self._came, saw=self._saw)
        if len(self._connections) >= self._settings.max_clients:
            await connection.refuse("Too many clients are connected; close one.")
            return
        task = asyncio.current_task()
        if task is None:
            return
        self._connections[connection] = task
        try:
            await connection.serve(self._uid)
        finally:
            del self._connections[connection]

    def _came(self, connection: ClientConnection) -> None:
        """Send a client the unseen messages of its chat."""
        for key, (target, text) in self._unseen.items():
            if connection.is_in(target.chat_id):
                connection.write(_message(target, text, key))

    def _saw(self, key: str) -> None:
        """Remember that a client has shown a message."""
        if key not in self._unseen:
            return
        del self._unseen[key]
        _remember(self._seen, key, None)
        if key in self._waiting:
            self._waiting[key].set()

    # ── sending ───────────────────────────────────────────────────────────────────────────────

    async def send(self, target: Target, text: str, *, key: str) -> str:
        """See `Adapter.send`."""
        if not self.is_connected:
            raise Unreachable("The local socket is closed.")
        if key in self._seen:
            return key
        _remember(self._unseen, key, (target, text))
        present = [each for each in self._connections if each.is_in(target.chat_id)]
        if not present:
            raise Unreachable("No client is in this chat; the next one will show the message.")
        seen = self._waiting[key] = asyncio.Event()
        for connection in present:
            connection.write(_message(target, text, key))
        try:
            async with asyncio.timeout(self._seen_seconds):
                await self._seen_or_alone(seen, present)
        except TimeoutError:
            raise Unreachable("No client has confirmed the message.") from None
        finally:
            self._waiting.pop(key, None)
        return key

    async def _seen_or_alone(self, seen: asyncio.Event, present: list[ClientConnection]) -> None:
        """Wait until a client has shown a message.

        Raises:
            Unreachable: all clients of the chat have disconnected.
        """
        looking: asyncio.Future[Any] = asyncio.ensure_future(seen.wait())
        leaving: asyncio.Future[Any] = asyncio.gather(
            *(asyncio.shield(self._connections[each]) for each in present), return_exceptions=True
        )
        try:
            await asyncio.wait({looking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            looking.cancel()
            leaving.cancel()
            with suppress(asyncio.CancelledError):
                await leaving
        if not seen.is_set():
            raise Unreachable("The client has disconnected; the next one will show the message.")

    async def typing(self, target: Target) -> None:
        """See `Adapter.typing`."""
        for connection in self._connections:
            if connection.is_in(target.chat_id):
                connection.write(line_of("typing"))


def _message(target: Target, text: str, key: str) -> bytes:
    return line_of("message", key=key, text=text, answers=target.reply_to)


def _remember(kept: OrderedDict[str, T], key: str, value: T) -> None:
    kept[key] = value
    while len(kept) > _REMEMBERED:
        kept.popitem(last=False)
