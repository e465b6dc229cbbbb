"""A bot on Telegram, with a receive loop that confirms an update after the gateway stored it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from hermes_sessions.errors import StoreError
from hermes_sessions.gateway.events import Attachment, Inbound, Target
from hermes_sessions.gateway.platforms.markdown import readable
from hermes_sessions.gateway.platforms.port import (
    Adapter,
    Limits,
    LoginRefused,
    PlatformError,
    RateLimited,
    Services,
    Undeliverable,
    Unreachable,
)
from hermes_sessions.gateway.platforms.receive_loop import (
    Sleep,
    StopSignal,
    deliver_inbound,
    keep_receiving,
)
from hermes_sessions.gateway.platforms.telegram.albums import AddressedAlbums
from hermes_sessions.gateway.platforms.telegram.client import (
    BotClient,
    ChatMoved,
    MarkupRefused,
    TopicGone,
    Unchanged,
)
from hermes_sessions.gateway.platforms.telegram.formatting import to_html
from hermes_sessions.gateway.platforms.telegram.mapping import (
    Album,
    InboundReader,
    Reading,
    album_of,
)
from hermes_sessions.gateway.platforms.telegram.settings import TelegramSettings
from hermes_sessions.gateway.platforms.telegram.webhook import WebhookServer

logger = logging.getLogger(__name__)

#: The general topic of every forum; messages to it have no topic id.
_GENERAL: Final = "1"


class TelegramAdapter(Adapter):
    """One bot, by long polling or by a webhook."""

    name: ClassVar[str] = "telegram"
    limits: ClassVar[Limits] = Limits(
        text=4096, length_unit="utf16", edits=True, edit_seconds=1.0, typing=True
    )

    def __init__(
        self,
        settings: TelegramSettings,
        *,
        commands: Sequence[tuple[str, str]] = (),
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """*commands* are shown in the menu of the chat, with their summaries."""
        self._settings = settings
        self._commands = commands
        self._sleep = sleep
        self._client: BotClient | None = None
        self._services: Services | None = None
        self._reader: InboundReader | None = None
        self._albums: AddressedAlbums | None = None
        self._ending = StopSignal()
        self._loop: asyncio.Task[None] | None = None
        self._webhook: WebhookServer | None = None
        self._is_connected = False
        #: Everything below is stored, and not yet confirmed.
        self._offset: int | None = None
        #: Updates that were stored although an earlier one was not; at most one batch.
        self._taken_ahead: set[int] = set()
        #: Updates that could not be read since the start.
        self.unreadable = 0

    # ── connecting ────────────────────────────────────────────────────────────────────────────

    async def connect(self, services: Services) -> None:
        """See `Adapter.connect`."""
        self._services = services
        self._albums = AddressedAlbums(services)
        self._ending = StopSignal()
        self._client = BotClient(self._settings)
        try:
            identity = await self._client.start()
            self._reader = InboundReader(
                bot_id=identity.id,
                bot_name=identity.name,
                needs_mention=self._settings.require_mention,
                max_file_bytes=self._settings.max_file_bytes,
            )
            await self._show_commands()
            await self._begin()
        except BaseException:
            await self._close()
            raise
        self._is_connected = True
        logger.info("telegram: connected as @%s", identity.name)

    async def _show_commands(self) -> None:
        if not self._commands:
            return
        try:
            await self._bot.show_commands(self._commands)
        except (
            RateLimited,
            Undeliverable,
        ) as error:  # commands work without a menu
            logger.warning("telegram: the command menu could not be set: %s", error)

    async def _begin(self) -> None:
        settings = self._settings.webhook
        if settings is None:
            await self._bot.ask_for_polling()
            self._loop = asyncio.create_task(self._poll())
            return
        self._webhook = WebhookServer(settings, self._take_brought)
        await self._webhook.start()
        try:
            await self._bot.ask_for_webhook(settings.url, settings.secret)
        except Undeliverable as error:
            raise LoginRefused(
                f"Telegram cannot use platforms.telegram.webhook.url: {error}"
            ) from error

    async def disconnect(self) -> None:
        """See `Adapter.disconnect`."""
        self._ending.ask()
        if self._loop is not None:
            await self._loop
        await self._confirm()
        await self._close()

    async def _close(self) -> None:
        self._is_connected = False
        if self._webhook is not None:
            await self._webhook.stop()
        client, self._client = self._client, None
        self._loop = self._webhook = None
        if client is not None:
            await client.close()

    @property
    def is_connected(self) -> bool:
        """See `Adapter.is_connected`."""
        if self._webhook is not None and not self._webhook.is_running:
            return False
        return self._is_connected

    @property
    def webhook_port(self) -> int | None:
        """Where the webhook listens, which matters when the configured port is 0."""
        return self._webhook.port if self._webhook else None

    @property
    def _bot(self) -> BotClient:
        if self._client is None:
            raise Unreachable("The adapter for Telegram is not connected.")
        return self._client

    # ── receiving ─────────────────────────────────────────────────────────────────────────────

    async def _poll(self) -> None:
        await keep_receiving(
            self._receive,
            self._ending,
            sleep=self._sleep,
            platform=self.name,
            logger=logger,
            lost=self._lost,
        )

    async def _lost(self, _error: PlatformError) -> None:
        self._is_connected = False

    async def _receive(self) -> bool:
        """Handle one batch; return whether it succeeded."""
        reader = self._reader
        if reader is None:
            raise Unreachable("The adapter for Telegram is not connected.")
        updates = await self._ask(self._settings.poll_seconds)
        if updates and album_of(updates[-1]):
            # The rest of an album follows in a moment. Nothing is confirmed yet, so that the next
            # poll returns all of it.
            await self._ending.result_unless_stopped(
                self._sleep(self._settings.album_milliseconds / 1000)
            )
            updates = await self._ask(0)
        addressed, unknown = await self._addressed(reader, updates)
        readings = reader.read_all(updates, addressed | unknown)
        if updates and not readings:
            logger.error("telegram: updates without numbers, which cannot be confirmed")
            return False
        return await self._take_all(readings, unknown)

    async def _addressed(
        self, reader: InboundReader, updates: Sequence[object]
    ) -> tuple[set[Album], set[Album]]:
        """Return the albums in groups that are for the bot, and those for which the store cannot
        tell or remember that at the moment.
        """
        albums = self._albums
        here = reader.addressed_albums(updates)
        addressed: set[Album] = set()
        unknown: set[Album] = set()
        for album in {album for update in updates if (album := album_of(update))}:
            if albums is None or not (reader.needs_mention and is_group(album.chat_id)):
                continue
            try:
                if album in here:
                    await albums.add(*album)
                elif await albums.has(*album):
                    addressed.add(album)
            except StoreError as error:
                logger.warning("telegram: an album is retried later: %s", error)
                unknown.add(album)
        return addressed, unknown

    async def _take_all(self, readings: Sequence[Reading], unknown: Collection[Album]) -> bool:
        """Store a batch; return whether all of it was stored. A message that cannot be stored yet
        delays its own chat only, but it and later updates are not confirmed, so that Telegram
        sends them again. The same holds for *unknown* albums.
        """
        held_up: set[str | None] = set()
        for reading in readings:
            if held_up and self._ending.is_stop_requested:
                return False
            chat_id = None if reading.inbound is None else reading.inbound.source.chat_id
            if chat_id in held_up:
                continue
            is_known = _album_of(reading) not in unknown
            is_taken_ahead = reading.number in self._taken_ahead
            if not is_taken_ahead and not (is_known and await self._take(reading)):
                held_up.add(chat_id)
            elif held_up:
                self._taken_ahead.add(reading.number)
            else:
                self._offset = reading.number + 1
        if not held_up:
            self._taken_ahead.clear()
        return not held_up

    async def _ask(self, seconds: int) -> list[object]:
        offset = self._offset
        updates = await self._ending.result_unless_stopped(self._bot.updates(offset, seconds))
        self._is_connected = True
        if self._offset == offset:
            # It is confirmed. Numbers start anywhere after a quiet week, so it is not sent again.
            self._offset = None
        return updates

    async def _confirm(self) -> None:
        """Confirm what was stored last, so that it is not delivered again after a restart."""
        if self._offset is None or self._client is None:
            return
        with suppress(PlatformError, TimeoutError):
            async with asyncio.timeout(5):
                await self._client.updates(self._offset, 0)
                self._offset = None

    async def _take_brought(self, update: object) -> bool:
        """Handle an update that arrived by the webhook."""
        reader = self._reader
        if reader is None:
            return False
        addressed, unknown = await self._addressed(reader, [update])
        if album_of(update) not in {None, *addressed, *reader.addressed_albums([update])}:
            # Calls overtake each other: the picture with the caption may follow.
            await self._sleep(self._settings.album_milliseconds / 1000)
            addressed, unknown = await self._addressed(reader, [update])
        if unknown:
            return False
        readings = reader.read_all([update], addressed)
        if not readings:
            self._skip("an update is not JSON, too large, or has no number", None)
        for reading in readings:
            if not await self._take(reading):
                return False
        return True

    async def _take(self, reading: Reading) -> bool:
        """Pass a message to the gateway; return whether it may be confirmed."""
        if reading.problem is not None:
            self._skip(str(reading.problem), reading.number)
        if reading.inbound is None:
            return True
        return await self._offer(reading.inbound, reading.number)

    async def _offer(self, inbound: Inbound, number: int) -> bool:
        return await deliver_inbound(
            self._services,
            inbound,
            named=f"telegram: update {number}",
            skip=lambda why: self._skip(why, number),
            logger=logger,
        )

    def _skip(self, why: str, number: int | None) -> None:
        self.unreadable += 1
        logger.warning("telegram: update %s is skipped: %s", number, why)

    # ── sending ───────────────────────────────────────────────────────────────────────────────

    async def send(self, target: Target, text: str, *, key: str) -> str:  # noqa: ARG002
        """See `Adapter.send`. Telegram has no idempotency keys."""
        thread_id = _thread_of(target)
        try:
            return await self._send(target, target.chat_id, thread_id, text)
        except TopicGone:
            # The topic was deleted meanwhile; the chat still exists.
            return await self._send(target, target.chat_id, None, text)
        except ChatMoved as moved:
            return await self._send(target, moved.chat_id, thread_id, text)

    async def _send(self, target: Target, chat_id: str, thread_id: int | None, text: str) -> str:
        reply_to = _number(target.reply_to)
        html = to_html(text)
        if html.strip():
            with suppress(MarkupRefused):
                return await self._bot.send(
                    chat_id, html, is_html=True, thread_id=thread_id, reply_to=reply_to
                )
        return await self._bot.send(
            chat_id, readable(text), is_html=False, thread_id=thread_id, reply_to=reply_to
        )

    def chat_type_of(self, chat_id: str) -> str:
        """See `Adapter.chat_type_of`; groups have negative ids."""
        return "group" if is_group(chat_id) else "dm"

    async def edit(self, target: Target, message_id: str, text: str) -> None:
        """See `Adapter.edit`."""
        number = _number(message_id)
        if number is None:
            raise Undeliverable(f"{message_id!r} is not the id of a message on Telegram.")
        with suppress(Unchanged):
            html = to_html(text)
            if html.strip():
                with suppress(MarkupRefused):
                    await self._bot.edit(target.chat_id, number, html, is_html=True)
                    return
            await self._bot.edit(target.chat_id, number, readable(text), is_html=False)

    async def typing(self, target: Target) -> None:
        """See `Adapter.typing`. Errors are only logged."""
        try:
            await self._bot.type(target.chat_id, _thread_of(target))
        except PlatformError as error:
            logger.debug("telegram: typing could not be shown: %s", error)

    async def fetch(self, attachment: Attachment, *, limit: int) -> bytes:
        """See `Adapter.fetch`."""
        return await self._bot.fetch(attachment.reference, limit)


def is_group(chat_id: str) -> bool:
    """Tell whether a chat is a group; groups have negative ids."""
    return chat_id.startswith("-")


def _album_of(reading: Reading) -> Album | None:
    album = reading.inbound.extra.get("album") if reading.inbound else None
    return Album(reading.inbound.source.chat_id, album) if reading.inbound and album else None


def _thread_of(target: Target) -> int | None:
    return None if target.thread_id == _GENERAL else _number(target.thread_id)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
