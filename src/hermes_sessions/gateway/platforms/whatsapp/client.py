"""Meta's Graph API over httpx; its errors become those of the port.

The token is sent only to Meta: as a header, never in a URL, and for files only to Meta's own hosts,
whatever URL a response contains.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import httpx

from hermes_sessions.gateway.platforms.payloads import is_trusted_address, too_large
from hermes_sessions.gateway.platforms.port import LoginRefused, Undeliverable, Unreachable
from hermes_sessions.gateway.platforms.whatsapp.errors import ErrorReply, to_platform_error
from hermes_sessions.gateway.platforms.whatsapp.mapping import MEDIA_ID
from hermes_sessions.gateway.platforms.whatsapp.settings import WhatsAppSettings

_SECONDS: Final = 30.0
#: Meta's file hosts.
_FILE_HOSTS: Final = (".fbsbx.com", ".fbcdn.net", ".facebook.com", ".whatsapp.net")

Record = Mapping[str, Any]


class BotIdentity(NamedTuple):
    """The business number."""

    #: The display format.
    number: str
    name: str

    @property
    def digits(self) -> str:
        """The number as it appears in messages."""
        return "".join(character for character in self.number if character in "0123456789")


class GraphClient:
    """One business number. Every call raises only errors of the port."""

    def __init__(self, settings: WhatsAppSettings) -> None:
        self._number_id = settings.phone_number_id
        self._base = f"{settings.base_url}/{settings.api_version}"
        self._base_url = settings.base_url
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {settings.token}"},
            timeout=_SECONDS,
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def identify(self) -> BotIdentity:
        """Return the number and its name.

        Raises:
            LoginRefused, Unreachable, RateLimited
        """
        fields = {"fields": "display_phone_number,verified_name"}
        try:
            found = await self._call("GET", self._number_id, params=fields)
        except Undeliverable as error:
            raise LoginRefused(
                "Meta does not know the number in platforms.whatsapp.phone_number_id, or the "
                f"token may not use it: {error}"
            ) from error
        return BotIdentity(
            str(found.get("display_phone_number") or ""), str(found.get("verified_name") or "")
        )

    async def send(self, message: Record) -> str:
        """Send a message and return its id."""
        answer = await self._call("POST", f"{self._number_id}/messages", json=message)
        try:
            message_id = answer["messages"][0]["id"]
        except (LookupError, TypeError):
            message_id = None
        if not isinstance(message_id, str):
            raise Unreachable("WhatsApp's response has no message id.")
        return message_id

    async def mark(self, message: Record) -> None:
        """Mark a message as read or show a typing indicator."""
        await self._call("POST", f"{self._number_id}/messages", json=message)

    async def fetch(self, media_id: str, limit: int) -> bytes:
        """Return a file's contents."""
        if not MEDIA_ID.fullmatch(media_id):
            raise Undeliverable("That is not the id of a file on WhatsApp.")
        found = await self._call("GET", media_id, params={"phone_number_id": self._number_id})
        size, address = found.get("file_size"), found.get("url")
        if isinstance(size, int) and size > limit:
            raise too_large(size, limit)
        if not isinstance(address, str) or not is_trusted_address(
            address, self._base_url, _FILE_HOSTS
        ):
            raise Undeliverable("WhatsApp's response has no trusted URL for the file.")
        with _translated():
            async with self._http.stream("GET", address) as response:
                if response.status_code in {404, 410}:
                    raise Undeliverable("The file no longer exists.")
                if response.status_code != 200:
                    await response.aread()
                    raise to_platform_error(_error_reply(response))
                return await _content(response, limit)

    async def _call(self, method: str, path: str, **options: Any) -> Record:
        with _translated():
            response = await self._http.request(method, f"{self._base}/{path}", **options)
        if response.status_code != 200:
            raise to_platform_error(_error_reply(response))
        answer = _parsed(response)
        if answer is None:
            raise Unreachable("WhatsApp's response is not readable.")
        if isinstance(answer.get("error"), Mapping):
            raise to_platform_error(_error_reply(response))
        return answer


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        words = str(error) or type(error).__name__
        raise Unreachable(f"WhatsApp cannot be reached: {words}") from error


async def _content(response: httpx.Response, limit: int) -> bytes:
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > limit:
            raise too_large(len(content), limit)
    return bytes(content)


def _parsed(response: httpx.Response) -> Record | None:
    try:
        answer = json.loads(response.content)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, Mapping) else None


def _error_reply(response: httpx.Response) -> ErrorReply:
    """Return the error in a response."""
    error = (_parsed(response) or {}).get("error")
    error = error if isinstance(error, Mapping) else {}
    code, data = error.get("code"), error.get("error_data")
    details = data.get("details") if isinstance(data, Mapping) else None
    words = details or error.get("message") or ""
    return ErrorReply(
        response.status_code,
        code if isinstance(code, int) and not isinstance(code, bool) else None,
        str(words)[:500],
        _seconds_to_wait(response.headers),
    )


def _seconds_to_wait(headers: httpx.Headers) -> float | None:
    """Return how long to wait: one header has seconds, Meta's own has minutes."""
    try:
        seconds = float(headers["Retry-After"])
        return seconds if math.isfinite(seconds) else None
    except (KeyError, ValueError):
        pass
    try:
        usage = json.loads(headers["X-Business-Use-Case-Usage"])
        minutes = [
            float(each["estimated_time_to_regain_access"])
            for cases in usage.values()
            for each in cases
        ]
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    return max(minutes) * 60 if minutes and max(minutes) > 0 else None
