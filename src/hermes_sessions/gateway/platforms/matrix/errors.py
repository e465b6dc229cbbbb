"""Map errors of a homeserver to errors of the port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import aiohttp
from nio import ErrorResponse
from nio.exceptions import EncryptionError, LocalProtocolError, OlmTrustError
from peewee import PeeweeException

from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Undeliverable,
    Unreachable,
)

#: Default pause if the homeserver names none.
_WAIT_SECONDS: Final = 5.0
_MAX_WAIT: Final = 86_400.0
_MAX_ERROR_TEXT: Final = 300

_LOGIN_ENDED: Final = frozenset(
    {"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED"}
)
#: Some homeservers send this code with an unrelated status.
_TEMPORARY: Final = frozenset({"M_UNKNOWN_POS", "M_RESOURCE_LIMIT_EXCEEDED"})


def checked(response: Any) -> Any:
    """Return a successful response.

    Raises:
        RateLimited, Unreachable, Undeliverable, LoginRefused: it is an error.
    """
    if isinstance(response, ErrorResponse):
        raise to_platform_error(response)
    return response


def to_platform_error(response: ErrorResponse) -> PlatformError:
    """Return the error of the port for an error response."""
    transport = getattr(response, "transport_response", None)
    status = getattr(transport, "status", None)
    code = response.status_code if isinstance(response.status_code, str) else None
    headers = getattr(transport, "headers", {})
    return refusal(status, code, str(response.message), response.retry_after_ms, headers)


def refusal(
    status: int | None, code: str | None, words: str, retry_after_ms: object, headers: Any
) -> PlatformError:
    """Return the error of the port for an HTTP status and an error code."""
    said = f"{words[:_MAX_ERROR_TEXT]} ({code or status})"
    if status == 429 or code == "M_LIMIT_EXCEEDED":
        seconds = _seconds(retry_after_ms, headers)
        return RateLimited(f"The homeserver's rate limit was reached: {said}", seconds)
    if code in _LOGIN_ENDED or status == 401:
        return LoginRefused(
            f"The homeserver does not accept the account's token: {said}. Create a new one, or "
            "set user and password: see docs/matrix.md."
        )
    if status is None or not 400 <= status < 500 or code is None or code in _TEMPORARY:
        return Unreachable(f"The homeserver failed: {said}")
    return Undeliverable(f"The homeserver refused the request: {said}")


@contextmanager
def translated() -> Iterator[None]:
    """Map every failure of the library to an error of the port."""
    try:
        yield
    except PlatformError:
        raise
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        words = str(error) or type(error).__name__
        raise Unreachable(f"The homeserver cannot be reached: {words}") from error
    except PeeweeException as error:
        raise Unreachable(f"The keys of the account cannot be stored: {error}") from error
    except LocalProtocolError as error:
        if "logged in" in str(error).lower():
            raise LoginRefused("The homeserver has ended the login of the account.") from error
        raise Undeliverable(str(error)) from error
    except (EncryptionError, OlmTrustError) as error:
        raise Undeliverable(f"The message cannot be encrypted: {error}") from error
    except (AttributeError, LookupError, TypeError, ValueError, AssertionError) as error:
        # The library assumes that responses match the specification.
        raise Unreachable(f"The homeserver's response is not readable: {error!r}"[:500]) from error


def _seconds(retry_after_ms: object, headers: Any) -> float:
    if isinstance(retry_after_ms, int | float) and retry_after_ms >= 0:
        return min(retry_after_ms / 1000, _MAX_WAIT)
    said = str(headers.get("Retry-After") or "")
    return min(float(said), _MAX_WAIT) if said.isdigit() else _WAIT_SECONDS
