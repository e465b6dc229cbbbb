"""Slack's Web API through slack_sdk; its errors become those of the port.

The SDK's retries are turned off, because a retried call can send a message twice. Its logger is
replaced, because it would log messages.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from hermes_sessions.gateway.platforms.payloads import is_trusted_address, too_large
from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    Undeliverable,
    Unreachable,
)
from hermes_sessions.gateway.platforms.slack.errors import (
    ErrorReply,
    explain_error,
    to_platform_error,
)
from hermes_sessions.gateway.platforms.slack.mapping import FILE_ID
from hermes_sessions.gateway.platforms.slack.settings import SlackSettings

_SECONDS: Final = 30
_MAX_REPLIES: Final = 200
_PAGE: Final = "text/html"
#: Slack's envelopes have some kilobytes. A larger frame closes the connection.
_MAX_FRAME: Final = 16 * 1024**2
#: Slack's file hosts.
_FILE_HOSTS: Final = (".slack.com", ".slack-files.com")
#: The SDK logs messages on lower levels.
_quiet: Final = logging.getLogger(f"{__name__}.sdk")
_quiet.setLevel(logging.WARNING)

Record = Mapping[str, Any]


class BotIdentity(NamedTuple):
    """The bot's identity."""

    user_id: str
    team_id: str
    #: Names of the bot and of its workspace.
    name: str
    team: str
    #: Scopes of the token; empty if Slack does not list them.
    scopes: frozenset[str]


class SlackClient:
    """One bot in one workspace. Every call raises only errors of the port."""

    def __init__(self, settings: SlackSettings) -> None:
        self._app_token = settings.app_token
        self._base_url = settings.base_url
        self._token = settings.token
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS))
        self._web = AsyncWebClient(
            settings.token,
            base_url=settings.base_url,
            session=self._session,
            timeout=_SECONDS,
            logger=_quiet,
            retry_handlers=[],
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def identify(self) -> BotIdentity:
        """Return the bot's identity.

        Raises:
            LoginRefused, Unreachable, RateLimited
        """
        with _translate_errors():
            found = await self._web.auth_test()
            scopes = found.headers.get("x-oauth-scopes", "")
            bot = _record(found)
        if not bot.get("bot_id"):
            raise LoginRefused(
                "The token is a user token. Copy the bot token (xoxb-…) from OAuth & Permissions "
                "into platforms.slack.token."
            )
        return BotIdentity(
            user_id=str(bot.get("user_id") or ""),
            team_id=str(bot.get("team_id") or ""),
            name=str(bot.get("user") or ""),
            team=str(bot.get("team") or ""),
            scopes=frozenset(scope.strip() for scope in scopes.split(",") if scope.strip()),
        )

    async def open_socket(self) -> aiohttp.ClientWebSocketResponse:
        """Return a new WebSocket for Socket Mode.

        Raises:
            LoginRefused, Unreachable, RateLimited
        """
        try:
            with _translate_errors():
                answer = _record(
                    await self._web.apps_connections_open(app_token=self._app_token or "")
                )
        except (LoginRefused, Undeliverable) as error:
            raise LoginRefused(
                "Socket Mode is not available. Turn it on for the app, and set "
                "platforms.slack.app_token to its app-level token (xapp-…) with "
                f"connections:write. {error}"
            ) from error
        address = answer.get("url")
        if not isinstance(address, str):
            raise Unreachable("Slack's response has no WebSocket URL.")
        with _translate_errors():
            return await self._session.ws_connect(
                address,
                heartbeat=_SECONDS,
                proxy=self._web.proxy,
                max_msg_size=_MAX_FRAME,
                timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
            )

    async def post(self, channel: str, text: str, thread_ts: str | None) -> str:
        """Send a message and return its id."""
        with _translate_errors():
            answer = _record(
                await self._web.chat_postMessage(
                    channel=channel,
                    text=text,
                    thread_ts=thread_ts,
                    unfurl_links=False,
                    unfurl_media=False,
                )
            )
        ts = answer.get("ts")
        if not isinstance(ts, str):
            raise Unreachable("Slack's response has no message id.")
        return ts

    async def update(self, channel: str, ts: str, text: str) -> None:
        """Replace the text of a message."""
        with _translate_errors():
            await self._web.chat_update(channel=channel, ts=ts, text=text)

    async def delete(self, channel: str, ts: str) -> None:
        """Delete a message."""
        with _translate_errors():
            await self._web.chat_delete(channel=channel, ts=ts)

    async def person(self, user_id: str) -> Record:
        """Return a user's profile."""
        with _translate_errors():
            return _part(await self._web.users_info(user=user_id), "user")

    async def channel(self, channel_id: str) -> Record:
        """Return the details of a channel or chat."""
        with _translate_errors():
            return _part(await self._web.conversations_info(channel=channel_id), "channel")

    async def replies(self, channel_id: str, thread_ts: str, before: str) -> list[object]:
        """Return the messages of a thread, starting with the one that opened it."""
        with _translate_errors():
            answer = await self._web.conversations_replies(
                channel=channel_id, ts=thread_ts, latest=before, limit=_MAX_REPLIES
            )
            messages = _record(answer).get("messages")
        return messages if isinstance(messages, list) else []

    async def fetch(self, file_id: str, limit: int) -> bytes:
        """Return a file's contents."""
        if not FILE_ID.fullmatch(file_id):
            raise Undeliverable("That is not the id of a file on Slack.")
        with _translate_errors():
            file = _part(await self._web.files_info(file=file_id), "file")
        size = file.get("size")
        if isinstance(size, int) and size > limit:
            raise too_large(size, limit)
        address = file.get("url_private_download") or file.get("url_private")
        if not isinstance(address, str) or not is_trusted_address(
            address, self._base_url, _FILE_HOSTS
        ):
            raise Undeliverable("Slack's response has no trusted URL for the file.")
        with _translate_errors():
            return await self._download(address, limit, is_page=file.get("mimetype") == _PAGE)

    async def _download(self, address: str, limit: int, *, is_page: bool) -> bytes:
        async with self._session.get(
            address,
            headers={"Authorization": f"Bearer {self._token}"},
            proxy=self._web.proxy,
            allow_redirects=False,
        ) as response:
            if response.status in {404, 410}:
                raise Undeliverable("The file no longer exists.")
            # Slack redirects to its login page if the app may not read the file.
            is_refused = 300 <= response.status < 400 or response.status in {401, 403}
            if is_refused or (response.content_type == _PAGE and not is_page):
                raise LoginRefused(explain_error(ErrorReply(403, "missing_scope", "files:read")))
            if response.status != 200:
                raise to_platform_error(
                    ErrorReply(response.status, seconds=_retry_after(response.headers))
                )
            content = bytearray()
            async for chunk in response.content.iter_chunked(65536):
                content += chunk
                if len(content) > limit:
                    raise too_large(len(content), limit)
            return bytes(content)


_PARSE_ERRORS: Final = (
    SlackClientError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except PlatformError:
        raise
    except SlackApiError as error:
        raise to_platform_error(_error_reply(error.response)) from error
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        words = str(error) or type(error).__name__
        raise Unreachable(f"Slack cannot be reached: {words}") from error
    except _PARSE_ERRORS as error:
        # The SDK assumes that responses match the documentation.
        raise Unreachable("Slack's response is not readable.") from error


def _record(answer: AsyncSlackResponse) -> Record:
    if not isinstance(answer.data, Mapping):
        raise Unreachable("Slack's response is not readable.")
    return answer.data


def _part(answer: AsyncSlackResponse, name: str) -> Record:
    part = _record(answer).get(name)
    return part if isinstance(part, Mapping) else {}


def _error_reply(response: Any) -> ErrorReply:
    """Return the error in a response of the SDK or of aiohttp."""
    status: Any = getattr(response, "status_code", None) or getattr(response, "status", 0)
    data = getattr(response, "data", None)
    data = data if isinstance(data, Mapping) else {}
    code, needed = data.get("error"), data.get("needed")
    return ErrorReply(
        int(status),
        str(code)[:100] if code else None,
        str(needed)[:200] if needed else None,
        _retry_after(getattr(response, "headers", {})),
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        seconds = float(headers["Retry-After"])
    except (KeyError, ValueError):
        return None
    return seconds if math.isfinite(seconds) else None
