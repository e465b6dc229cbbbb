"""The Bot API through python-telegram-bot; its errors become those of the port."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

import httpx
from telegram import Bot, LinkPreviewOptions, ReplyParameters
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    EndPointNotFound,
    Forbidden,
    InvalidToken,
    TelegramError,
)
from telegram.request import HTTPXRequest

from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Undeliverable,
    Unreachable,
)
from hermes_sessions.gateway.platforms.telegram.settings import TelegramSettings

#: Types of updates to receive. Not edits: the original message was answered.
ALLOWED_UPDATES: Final = ["message"]

_SECONDS: Final = 20.0
_NO_PREVIEW: Final = LinkPreviewOptions(is_disabled=True)


class _WithoutTokens(logging.Filter):
    """Removes the token from the log of httpx: it is part of every URL."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        record.msg, record.args = _IN_ADDRESS.sub("/bot…/", message), ()
        return True


_IN_ADDRESS: Final = re.compile(r"/bot[0-9]+:[^/\s]+/")
logging.getLogger("httpx").addFilter(_WithoutTokens())
# The SDK logs tokens and messages on that level.
logging.getLogger("telegram.Bot").addFilter(lambda record: record.levelno > logging.DEBUG)


class BotIdentity(NamedTuple):
    """The bot's identity."""

    id: int
    name: str


class MarkupRefused(Undeliverable):
    """Telegram cannot read the markup, or finds nothing in it."""


class TopicGone(Undeliverable):
    """The topic no longer exists."""


class Unchanged(Undeliverable):
    """The message already has this text."""


class ChatMoved(Undeliverable):
    """The group has another id now."""

    def __init__(self, message: str, chat_id: str) -> None:
        self.chat_id = chat_id
        super().__init__(message)


_REFUSALS: Final = (
    ("can't parse entities", MarkupRefused),
    ("text is empty", MarkupRefused),
    ("text must be non-empty", MarkupRefused),
    ("thread not found", TopicGone),
    ("topic_deleted", TopicGone),
    ("message is not modified", Unchanged),
)


class TooManyRequests(TelegramError):
    """Too many requests; python-telegram-bot's own error warns that it will change."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"Flood control exceeded. Retry in {seconds:g} seconds")


class BotClient:
    """One bot. Every call raises only errors of the port."""

    def __init__(self, settings: TelegramSettings) -> None:
        self._bot = _bot(settings, _Request(read_timeout=_SECONDS, pool_timeout=_SECONDS))
        # Polling has a connection of its own, so that it is always available and a cancelled poll
        # does not disturb other calls.
        self._asking = _Request(connection_pool_size=1, pool_timeout=_SECONDS)
        self._asker = _bot(settings, self._asking)

    async def start(self) -> BotIdentity:
        """Log in and return the bot's identity.

        Raises:
            LoginRefused, Unreachable
        """
        with _translated():
            await self._bot.initialize()
        return BotIdentity(self._bot.id, self._bot.username)

    async def close(self) -> None:
        """Close every connection."""
        await self._bot.shutdown()
        await self._asking.shutdown()

    async def updates(self, offset: int | None, seconds: int, *, limit: int = 100) -> list[object]:
        """Return updates as received, confirming all below *offset*; wait for one if needed."""
        asked: dict[str, Any] = {"timeout": seconds, "limit": limit}
        asked["allowed_updates"] = ALLOWED_UPDATES
        if offset is not None:
            asked["offset"] = offset
        with _translated():
            # Method names are case-insensitive. With this spelling, the SDK returns the raw answer,
            # so that one unreadable update does not hide the others.
            found = await self._asker.do_api_request(
                "getupdates", api_kwargs=asked, read_timeout=seconds + _SECONDS
            )
        if not isinstance(found, list):
            raise Unreachable("Telegram's response is not a list of updates.")
        return found

    async def send(
        self,
        chat_id: str,
        text: str,
        *,
        is_html: bool,
        thread_id: int | None,
        reply_to: int | None,
    ) -> str:
        """Send a message and return its id."""
        answered = (
            None
            if reply_to is None
            else ReplyParameters(message_id=reply_to, allow_sending_without_reply=True)
        )
        with _translated():
            message = await self._bot.send_message(
                chat_id,
                text,
                parse_mode="HTML" if is_html else None,
                message_thread_id=thread_id,
                reply_parameters=answered,
                link_preview_options=_NO_PREVIEW,
            )
        return str(message.message_id)

    async def edit(self, chat_id: str, message_id: int, text: str, *, is_html: bool) -> None:
        """Replace the text of a message."""
        with _translated():
            await self._bot.edit_message_text(
                text,
                chat_id=chat_id,
                message_id=message_id,
                parse_mode="HTML" if is_html else None,
                link_preview_options=_NO_PREVIEW,
            )

    async def type(self, chat_id: str, thread_id: int | None) -> None:
        """Show for five seconds that the bot is typing."""
        with _translated():
            await self._bot.send_chat_action(chat_id, "typing", message_thread_id=thread_id)

    async def fetch(self, reference: str, limit: int) -> bytes:
        """Return a file's contents."""
        with _translated():
            file = await self._bot.get_file(reference)
        if (file.file_size or 0) > limit:
            raise Undeliverable(f"The file is {file.file_size:,} bytes, over {limit:,}.")
        try:
            with _translated():
                content = bytes(await file.download_as_bytearray())
        except LoginRefused as error:  # what the SDK makes of 404
            raise Undeliverable("The file no longer exists.") from error
        if len(content) > limit:
            raise Undeliverable(f"The file is {len(content):,} bytes, over {limit:,}.")
        return content

    async def show_commands(self, commands: Sequence[tuple[str, str]]) -> None:
        """Show commands in the menu, with their summaries."""
        with _translated():
            await self._bot.set_my_commands(commands)

    async def ask_for_polling(self) -> None:
        """Switch to polling; pending updates are kept."""
        with _translated():
            await self._bot.delete_webhook(drop_pending_updates=False)
        await self.updates(None, 0, limit=1)  # connects, and confirms nothing

    async def ask_for_webhook(self, url: str, secret: str) -> None:
        """Switch to a webhook at *url*."""
        with _translated():
            await self._bot.set_webhook(
                url,
                secret_token=secret,
                allowed_updates=ALLOWED_UPDATES,
                drop_pending_updates=False,
            )


@cache
def _shared_trust() -> dict[str, Any]:
    """Return the trusted certificates; reading them is slow."""
    return {"verify": httpx.create_ssl_context()}


def _bot(settings: TelegramSettings, request: HTTPXRequest) -> Bot:
    return Bot(
        settings.token,
        base_url=f"{settings.base_url}/bot",
        base_file_url=f"{settings.base_url}/file/bot",
        request=request,
        get_updates_request=request,
    )


class _Request(HTTPXRequest):
    def __init__(self, **options: Any) -> None:
        super().__init__(httpx_kwargs=_shared_trust(), **options)

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        status, body = await super().do_request(*args, **kwargs)
        if status == 429:
            raise TooManyRequests(_retry_after(body))
        return status, body


def _retry_after(body: bytes) -> float:
    try:
        seconds = float(json.loads(body)["parameters"]["retry_after"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return 1.0
    return min(max(seconds, 0.0), 86400.0)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except TelegramError as error:
        raise translate(error) from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # The SDK assumes that answers are as documented.
        raise Unreachable("Telegram's response is not readable.") from error


def translate(error: TelegramError) -> PlatformError:
    """Return an error of the SDK as one of the port."""
    words = _IN_ADDRESS.sub("/bot…/", error.message)
    match error:
        case TooManyRequests():
            return RateLimited(words, error.seconds)
        case InvalidToken() | EndPointNotFound():
            return LoginRefused(
                "Telegram does not accept the bot token. Copy it again from @BotFather into "
                "platforms.telegram.token."
            )
        case ChatMigrated():
            return ChatMoved(words, str(error.new_chat_id))
        case Forbidden() | BadRequest():
            lowered = words.lower()
            kinds = (kind for phrase, kind in _REFUSALS if phrase in lowered)
            return next(kinds, Undeliverable)(words)
        case Conflict():
            return Unreachable(f"{words} Another process receives the messages of this bot.")
        case _:
            return Unreachable(f"Telegram cannot be reached: {words}")
