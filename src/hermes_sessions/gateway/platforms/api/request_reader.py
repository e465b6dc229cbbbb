"""Authenticate a request and read its body, within limits."""

from __future__ import annotations

import asyncio
import hmac
import json
from typing import Final, NamedTuple

from starlette.requests import ClientDisconnect, Request

from hermes_sessions.gateway.platforms.api.errors import ApiError
from hermes_sessions.gateway.platforms.api.mapping import USER_HEADER, one_of
from hermes_sessions.gateway.platforms.api.settings import ApiSettings

#: Up to this many times the limit is read and discarded, so that the client gets the error; a
#: longer request is cut off.
_THROWN_AWAY: Final = 8


class Caller(NamedTuple):
    """The caller: a holder of the token, on behalf of a user if one is named."""

    user: str | None


def caller_of(request: Request, settings: ApiSettings, field: object = None) -> Caller:
    """Return the caller; *field* is the user that the body names.

    Raises:
        ApiError: the token is missing or wrong, or the user is not valid.
    """
    require_token(request, settings)
    return Caller(one_of(id_header(request, USER_HEADER), field, "user"))


def id_header(request: Request, name: str) -> str | None:
    """Return a header with an id; None if it is missing.

    Raises:
        ApiError: it was sent twice; a proxy may have checked the other one.
    """
    given = request.headers.getlist(name)
    if len(given) > 1:
        raise ApiError(400, f"{name} was sent twice.", code="contradiction", param=name)
    return given[0] if given else None


def require_token(request: Request, settings: ApiSettings) -> None:
    """Check the token of a request, in constant time.

    Raises:
        ApiError: it is missing or wrong, or was sent twice; a proxy may have checked the other one.
    """
    scheme, _, given = (id_header(request, "Authorization") or "").partition(" ")
    # As bytes, because `compare_digest` refuses text that is not ASCII; headers are Latin-1.
    is_right = hmac.compare_digest(given.strip().encode("latin-1"), settings.token.encode())
    if scheme.lower() != "bearer" or not is_right:
        raise ApiError(
            401,
            "The token is missing or wrong. Send platforms.api.token as: Authorization: Bearer …",
            code="invalid_api_key",
        )


async def read_json_body(request: Request, settings: ApiSettings) -> object:
    """Return the parsed body.

    Raises:
        ApiError: it is too large, too slow, or not JSON.
    """
    try:
        async with asyncio.timeout(settings.body_seconds):
            body = await _received(request, settings.max_body_bytes)
    except TimeoutError:
        raise ApiError(408, "The body arrived too slowly.", code="timeout") from None
    except ClientDisconnect:
        raise ApiError(400, "The body did not arrive completely.", code="disconnected") from None
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
        # Python refuses to parse very long integers.
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
