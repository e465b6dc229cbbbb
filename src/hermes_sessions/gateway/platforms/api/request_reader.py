"""A call: who makes it, and what it brings, within bounds."""

from __future__ import annotations

import asyncio
import hmac
import json
from typing import Final, NamedTuple

from starlette.requests import ClientDisconnect, Request

from hermes_sessions.gateway.platforms.api.errors import ApiError
from hermes_sessions.gateway.platforms.api.mapping import USER_HEADER, one_of
from hermes_sessions.gateway.platforms.api.settings import ApiSettings

#: So many times the limit is received and thrown away, so that a client that sends too much hears
#: why; one that sends more is cut off.
_THROWN_AWAY: Final = 8


class Caller(NamedTuple):
    """Who calls: whoever has the token, for a person if they name one."""

    user: str | None


def caller_of(request: Request, settings: ApiSettings, field: object = None) -> Caller:
    """Return who calls; *field* is the person that the body names.

    Raises:
        ApiError: without the token, or the person cannot be one.
    """
    require_token(request, settings)
    return Caller(one_of(id_header(request, USER_HEADER), field, "user"))


def id_header(request: Request, name: str) -> str | None:
    """Return a header with an id; None without one.

    Raises:
        ApiError: there are two, of which somebody on the way may have seen the other.
    """
    given = request.headers.getlist(name)
    if len(given) > 1:
        raise ApiError(400, f"{name} was sent twice.", code="contradiction", param=name)
    return given[0] if given else None


def require_token(request: Request, settings: ApiSettings) -> None:
    """Return when the call carries the token; it takes as long to find out for any other.

    Raises:
        ApiError: it does not, or it carries two, of which a proxy may have checked the other.
    """
    scheme, _, given = (id_header(request, "Authorization") or "").partition(" ")
    # As bytes, because text that is not ASCII cannot be compared so; headers are Latin-1.
    is_right = hmac.compare_digest(given.strip().encode("latin-1"), settings.token.encode())
    if scheme.lower() != "bearer" or not is_right:
        raise ApiError(
            401,
            "The token is missing or wrong. Send platforms.api.token as: Authorization: Bearer …",
            code="invalid_api_key",
        )


async def read_json_body(request: Request, settings: ApiSettings) -> object:
    """Return what the body says.

    Raises:
        ApiError: it is too large, too slow, or no JSON.
    """
    try:
        async with asyncio.timeout(settings.body_seconds):
            body = await _received(request, settings.max_body_bytes)
    except TimeoutError:
        raise ApiError(408, "The body came too slowly.", code="timeout") from None
    except ClientDisconnect:
        raise ApiError(400, "The body did not arrive.", code="disconnected") from None
    try:
        return json.loads(body.decode())
    except UnicodeDecodeError:
        raise ApiError(400, "The body is not UTF-8.", code="invalid_json") from None
    except json.JSONDecodeError as error:
        raise ApiError(
            400,
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            code="invalid_json",
        ) from None
    except ValueError:
        # The only other thing that Python refuses to read.
        raise ApiError(400, "A number in the body is too long.", code="invalid_json") from None
    except RecursionError:
        raise ApiError(400, "The body is nested too deeply.", code="invalid_json") from None


async def _received(request: Request, limit: int) -> bytes:
    body = bytearray()
    received = 0
    async for piece in request.stream():
        received += len(piece)
        if received > limit * _THROWN_AWAY:
            break
        if received <= limit:
            body += piece
    if received > limit:
        raise ApiError(
            413,
            f"The request is larger than {limit:,} bytes. Send less, or raise "
            f"platforms.api.max_body_bytes.",
            code="too_large",
        )
    return bytes(body)
