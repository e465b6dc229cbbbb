"""Discord's REST API through discord.py; its errors become those of the port."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, NamedTuple

import aiohttp
import discord
from discord.http import HTTPClient, Ratelimit, Route

from hermes_sessions.gateway.platforms.discord.errors import translated
from hermes_sessions.gateway.platforms.discord.identifiers import is_snowflake
from hermes_sessions.gateway.platforms.discord.settings import PUBLIC_API, DiscordSettings
from hermes_sessions.gateway.platforms.port import Undeliverable, Unreachable

# The SDK logs messages on that level.
logging.getLogger("discord.http").addFilter(lambda record: record.levelno > logging.DEBUG)

#: Messages in one page of a history.
PAGE: Final = 100

_SECONDS: Final = aiohttp.ClientTimeout(total=30)
#: A download may take any time while data arrives.
_FILE_SECONDS: Final = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=30)
_CHUNK: Final = 64 * 1024
#: No link previews: Discord would fetch URLs that the agent was tricked into writing.
_WITHOUT_PREVIEWS: Final = 1 << 2
#: The agent may mention users, but neither @everyone nor roles.
_MENTIONS: Final = {"parse": ["users"], "replied_user": False}
_MESSAGES: Final = "/channels/{channel_id}/messages"
_MESSAGE: Final = "/channels/{channel_id}/messages/{message_id}"


class BotIdentity(NamedTuple):
    """The bot's identity."""

    id: str
    name: str


class RestClient:
    """One bot. Every call raises only errors of the port."""

    def __init__(self, settings: DiscordSettings) -> None:
        self._token = settings.token
        self.http: HTTPClient = _Http(settings.base_url)

    async def login(self) -> BotIdentity:
        """Return the bot's identity.

        Raises:
            LoginRefused, Unreachable
        """
        with translated():
            user: Any = await self.http.static_login(self._token)
            identity = BotIdentity(user["id"], user["username"])
        if not is_snowflake(identity.id):
            raise Unreachable("Discord's response is not readable.")
        return identity

    async def close(self) -> None:
        """Close every connection."""
        await self.http.close()

    async def gateway_address(self) -> str:
        """Return the URL of the WebSocket.

        Raises:
            LoginRefused, RateLimited, Unreachable
        """
        with translated():
            found = await self.http.request(Route("GET", "/gateway/bot"))
            return str(found["url"])

    async def send(
        self, channel_id: str, text: str, *, nonce: str, reply_to: str | None = None
    ) -> str:
        """Send a message and return its id; the same nonce within some minutes sends nothing."""
        content: dict[str, Any] = {
            "content": text,
            "nonce": nonce,
            "enforce_nonce": True,
            "allowed_mentions": _MENTIONS,
            "flags": _WITHOUT_PREVIEWS,
        }
        if reply_to is not None:
            content["message_reference"] = {"message_id": reply_to, "fail_if_not_exists": False}
        route = Route("POST", _MESSAGES, channel_id=_id(channel_id, "channel"))
        with translated():
            sent = await self.http.request(route, json=content)
            return str(sent["id"])

    async def edit(self, channel_id: str, message_id: str, text: str) -> None:
        """Replace the text of a message."""
        route = Route(
            "PATCH",
            _MESSAGE,
            channel_id=_id(channel_id, "channel"),
            message_id=_id(message_id, "message"),
        )
        with translated():
            await self.http.request(
                route,
                json={
                    "content": text,
                    "allowed_mentions": _MENTIONS,
                    "flags": _WITHOUT_PREVIEWS,
                },
            )

    async def type(self, channel_id: str) -> None:
        """Show for ten seconds that the bot is typing."""
        route = Route(
            "POST", "/channels/{channel_id}/typing", channel_id=_id(channel_id, "channel")
        )
        with translated():
            await self.http.request(route)

    async def history(self, channel_id: str, after: int) -> list[Any]:
        """Return the first messages of a channel after an id, as received, in any order."""
        route = Route("GET", _MESSAGES, channel_id=_id(channel_id, "channel"))
        with translated():
            found = await self.http.request(route, params={"limit": PAGE, "after": str(after)})
        if not isinstance(found, list):
            raise Unreachable("Discord's response is not a list of messages.")
        return found

    async def private_channel(self, user_id: str) -> str:
        """Return the channel of the private chat with a user. The user is not notified."""
        route = Route("POST", "/users/@me/channels")
        with translated():
            found = await self.http.request(route, json={"recipient_id": _id(user_id, "person")})
            return _id(str(found["id"]), "channel")

    async def channel(self, channel_id: str) -> object:
        """Return a channel, as received."""
        route = Route("GET", "/channels/{channel_id}", channel_id=_id(channel_id, "channel"))
        with translated():
            return await self.http.request(route)

    async def member(self, guild_id: str, user_id: str) -> object:
        """Return a member of a server, as received."""
        route = Route(
            "GET",
            "/guilds/{guild_id}/members/{user_id}",
            guild_id=_id(guild_id, "server"),
            user_id=_id(user_id, "person"),
        )
        with translated():
            return await self.http.request(route)

    async def fetch(self, reference: str, limit: int) -> bytes:
        """Return a file's contents; *reference* is channel, message and file.

        Raises:
            Undeliverable: it is gone, or has more than *limit* bytes.
            RateLimited, Unreachable
        """
        address = await self._address_of(reference, limit)
        with translated():
            async with (
                aiohttp.ClientSession(timeout=_FILE_SECONDS) as session,
                session.get(address) as answer,
            ):
                if answer.status >= 500 or answer.status == 429:
                    raise Unreachable(f"The file cannot be fetched now ({answer.status}).")
                if answer.status != 200:
                    raise Undeliverable(f"The file no longer exists ({answer.status}).")
                content = bytearray()
                async for chunk in answer.content.iter_chunked(_CHUNK):
                    content += chunk
                    if len(content) > limit:
                        raise Undeliverable(f"The file has more than {limit:,} bytes.")
        return bytes(content)

    async def _address_of(self, reference: str, limit: int) -> str:
        """Return the current URL of a file: URLs expire after some hours."""
        channel_id, _, rest = reference.partition("/")
        message_id, _, file_id = rest.partition("/")
        route = Route(
            "GET",
            _MESSAGE,
            channel_id=_id(channel_id, "channel"),
            message_id=_id(message_id, "message"),
        )
        with translated():
            message = await self.http.request(route)
            # The files of a forwarded message belong to the message, too.
            snapshots = [each["message"] for each in message.get("message_snapshots") or ()]
            files = [
                each
                for holder in (message, *snapshots)
                for each in holder.get("attachments") or ()
                if each["id"] == file_id
            ]
            if not files:
                raise Undeliverable("The file no longer exists.")
            if files[0]["size"] > limit:
                raise Undeliverable(f"The file has {files[0]['size']:,} bytes, over {limit:,}.")
            return str(files[0]["url"])


def _id(value: str, what: str) -> str:
    if not is_snowflake(value):
        raise Undeliverable(f"{value!r} is not the id of a {what} on Discord.")
    return value


class _Bucket(Ratelimit):
    """A rate limit that raises instead of waiting: the gateway does other work meanwhile."""

    __slots__ = ()

    async def acquire(self) -> None:
        now = self._loop.time()
        self._last_request = now
        if self.is_expired():
            self.reset()  # type: ignore[no-untyped-call]
        # Before the first response, no limit is known.
        if self.expires is not None and self.remaining <= 0:
            raise discord.RateLimited(max(self.expires - now, 0.0))
        self.remaining -= 1
        self.outgoing += 1

    async def _refresh(self) -> None:
        """Replaces the SDK's method, which would wait."""


class _Http(HTTPClient):
    """The SDK's client, with another base URL, which raises instead of waiting for a rate limit.

    Changes only this client's URL, and none of the SDK's classes.
    """

    def __init__(self, base_url: str) -> None:
        super().__init__(asyncio.get_running_loop())
        self._base_url = base_url
        # Any wait is longer than this, and so an error.
        self.max_ratelimit_timeout = 1e-9

    def get_ratelimit(self, key: str) -> Ratelimit:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(None)
            self._try_clear_expired_ratelimits()
        return bucket

    async def request(self, route: Route, **options: Any) -> Any:
        route.url = route.url.replace(PUBLIC_API, self._base_url, 1)
        options.setdefault("timeout", _SECONDS)
        return await super().request(route, **options)
