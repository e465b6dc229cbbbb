"""A bot on Discord: receives on one connection, and sends through the REST API."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from hermes_sessions.errors import StoreError
from hermes_sessions.gateway.events import Attachment, Target
from hermes_sessions.gateway.platforms.discord.client import RestClient
from hermes_sessions.gateway.platforms.discord.errors import ReplyReferenceRefused
from hermes_sessions.gateway.platforms.discord.formatting import MAX_TEXT, to_discord
from hermes_sessions.gateway.platforms.discord.identifiers import is_snowflake
from hermes_sessions.gateway.platforms.discord.mapping import DIRECT, InboundReader
from hermes_sessions.gateway.platforms.discord.read_positions import ReadPositions
from hermes_sessions.gateway.platforms.discord.receiver import Receiver
from hermes_sessions.gateway.platforms.discord.settings import DiscordSettings
from hermes_sessions.gateway.platforms.discord.websocket import WebSocketConnection
from hermes_sessions.gateway.platforms.port import (
    Adapter,
    Limits,
    PlatformError,
    RateLimited,
    Services,
    Unreachable,
)
from hermes_sessions.gateway.platforms.receive_loop import Sleep

logger = logging.getLogger(__name__)

#: Discord accepts a nonce of at most 25 characters.
_NONCE_BYTES: Final = 12


class DiscordAdapter(Adapter):
    """One bot."""

    name: ClassVar[str] = "discord"
    limits: ClassVar[Limits] = Limits(
        # Discord does not document the unit; a text that fits in UTF-16 units fits in characters.
        text=MAX_TEXT,
        length_unit="utf16",
        edits=True,
        # Discord allows five edits or messages per five seconds in a channel.
        edit_seconds=1.5,
        typing=True,
        idempotent=True,
    )

    def __init__(
        self,
        settings: DiscordSettings,
        *,
        commands: frozenset[str] = frozenset(),
        needs_roles: bool = False,
        people: Sequence[str] = (),
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*commands* are for the bot without a mention. With *needs_roles*, messages have the roles
        of their sender, even if that takes a request. The first private message of *people* is
        found even if it was sent while the bot was offline.
        """
        self._settings = settings
        self._commands = commands
        self._needs_roles = needs_roles
        self._people = people
        self._sleep = sleep
        self._clock = clock
        self._client: RestClient | None = None
        self._connection: WebSocketConnection | None = None
        self._receiver: Receiver | None = None
        self._listening: asyncio.Task[None] | None = None
        self._storing: asyncio.Task[None] | None = None

    # ── connecting ────────────────────────────────────────────────────────────────────────────

    async def connect(self, services: Services) -> None:
        """See `Adapter.connect`."""
        await self._close()
        self._client = client = RestClient(self._settings)
        try:
            identity = await client.login()
            reader = InboundReader(
                bot_id=identity.id,
                needs_mention=self._settings.require_mention,
                free_channels=self._settings.free_response_channels,
                commands=self._commands,
                max_file_bytes=self._settings.max_file_bytes,
            )
            hours = self._settings.catch_up_hours
            marks = ReadPositions(services, identity.id, hours=hours, clock=self._clock)
            try:
                await marks.load()
            except StoreError as error:
                raise Unreachable(f"The read positions cannot be loaded: {error}") from error
            self._receiver = Receiver(
                services,
                client,
                reader,
                marks,
                needs_roles=self._needs_roles,
                catches_up=hours > 0,
                sleep=self._sleep,
                people=self._people,
            )
            self._connection = WebSocketConnection(
                client,
                self._receiver.handlers(),
                unreadable=self._receiver.skip,
                sleep=self._sleep,
            )
            self._storing = asyncio.create_task(self._receiver.run())
            await self._listen(self._connection)
        except RateLimited as error:
            await self._close()
            raise Unreachable(str(error)) from error
        except BaseException:
            await self._close()
            raise
        logger.info("discord: connected as %s", identity.name)

    async def _listen(self, connection: WebSocketConnection) -> None:
        """Start to receive; return when Discord sends events."""
        self._listening = asyncio.create_task(connection.run())
        ready = asyncio.ensure_future(connection.is_ready.wait())
        try:
            await asyncio.wait({self._listening, ready}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._listening.done():
            # It ends on its own only if it could not start.
            listening, self._listening = self._listening, None
            await listening

    async def disconnect(self) -> None:
        """See `Adapter.disconnect`."""
        await self._close()

    async def _close(self) -> None:
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            await asyncio.wait({listening})
        receiver, storing = self._receiver, self._storing
        if receiver is not None:
            receiver.end()
        if storing is not None:
            await storing
        self._storing = self._connection = None
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @property
    def is_connected(self) -> bool:
        """See `Adapter.is_connected`."""
        return self._connection is not None and self._connection.is_ready.is_set()

    @property
    def unreadable(self) -> int:
        """How many payloads were unreadable since the bot connected."""
        return self._receiver.unreadable if self._receiver else 0

    @property
    def _rest(self) -> RestClient:
        if self._client is None:
            raise Unreachable("The adapter for Discord is not connected.")
        return self._client

    # ── sending ───────────────────────────────────────────────────────────────────────────────

    async def send(self, target: Target, text: str, *, key: str) -> str:
        """See `Adapter.send`. Discord recognises a repeated nonce for some minutes."""
        channel_id = _channel_of(target)
        shown = to_discord(text)
        nonce = _nonce(channel_id, key, shown)
        if is_snowflake(target.reply_to) and not target.extra.get(DIRECT):
            with suppress(ReplyReferenceRefused):
                return await self._rest.send(
                    channel_id, shown, nonce=nonce, reply_to=target.reply_to
                )
        return await self._rest.send(channel_id, shown, nonce=nonce)

    def chat_type_of(self, chat_id: str) -> str | None:
        """See `Adapter.chat_type_of`; a group if it is a channel of a server."""
        is_shared = None if self._receiver is None else self._receiver.is_on_a_server(chat_id)
        return None if is_shared is None else "group" if is_shared else "dm"

    async def edit(self, target: Target, message_id: str, text: str) -> None:
        """See `Adapter.edit`."""
        await self._rest.edit(_channel_of(target), message_id, to_discord(text))

    async def typing(self, target: Target) -> None:
        """See `Adapter.typing`. Errors are only logged."""
        try:
            await self._rest.type(_channel_of(target))
        except PlatformError as error:
            logger.debug("discord: typing could not be shown: %s", error)

    async def fetch(self, attachment: Attachment, *, limit: int) -> bytes:
        """See `Adapter.fetch`."""
        return await self._rest.fetch(attachment.reference, limit)


def _channel_of(target: Target) -> str:
    """Return the channel of a target: to Discord, a thread is a channel."""
    return target.thread_id or target.chat_id


def _nonce(channel_id: str, key: str, text: str) -> str:
    """Return a nonce that is the same when the same message is sent again.

    It contains the text, because keys count from one in every store.
    """
    words = f"{channel_id}\0{key}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(words, digest_size=_NONCE_BYTES).hexdigest()
