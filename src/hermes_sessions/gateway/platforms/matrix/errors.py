"""What a homeserver refuses, as the errors of the port."""

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

#: When the homeserver does not say how long to wait.
_WAIT_SECONDS: Final = 5.0
_LONGEST_WAIT: Final = 86_400.0
_MAX_WORDS: Final = 300

_NO_LOGIN: Final = frozenset(
    {"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED"}
)
#: Some homeservers say so with a status that would mean something else.
_PASSING: Final = frozenset({"M_UNKNOWN_POS", "M_RESOURCE_LIMIT_EXCEEDED"})


def checked(response: Any) -> Any:
    """Return an answer that is no refusal.

    Raises:
        RateLimited, Unreachable, Undeliverable, LoginRefused: it is one.
    """
    if isinstance(response, ErrorResponse):
        raise to_platform_error(response)
    return response


def to_platform_error(response: ErrorResponse) -> PlatformError:
    """Return what the gateway can act on."""
    transport = getattr(response, "transport_response", None)
    status = getattr(transport, "status", None)
    code = response.status_code if isinstance(response.status_code, str) else None
    headers = getattr(transport, "headers", {})
    return refusal(status, code, str(response.message), response.retry_after_ms, headers)


def refusal(
    status: int | None, code: str | None, words: str, retry_after_ms: object, headers: Any
) -> PlatformError:
    """Return what an HTTP status and the code of an error mean."""
    said = f"{words[:_MAX_WORDS]} ({code or status})"
    if status == 429 or code == "M_LIMIT_EXCEEDED":
        seconds = _seconds(retry_after_ms, headers)
        return RateLimited(f"The homeserver asks to go more slowly: {said}", seconds)
    if code in _NO_LOGIN or status == 401:
        return LoginRefused(
            f"The homeserver does not accept the account's token: {said}. Make another one, or "
            f"set user and password: see docs/matrix.md."
        )
    if status is None or not 400 <= status < 500 or code is None or code in _PASSING:
        return Unreachable(f"The homeserver could not do it: {said}")
    return Undeliverable(f"The homeserver refuses it: {said}")


@contextmanager
def translated() -> Iterator[None]:
    """Let every failure of the library be one of the port."""
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
        raise Undeliverable(f"It cannot be encrypted: {error}") from error
    except (AttributeError, LookupError, TypeError, ValueError, AssertionError) as error:
        # The library trusts that answers are what is documented.
        raise Unreachable(f"The homeserver's answer cannot be read: {error!r}"[:500]) from error


def _seconds(retry_after_ms: object, headers: Any) -> float:
    if isinstance(retry_after_ms, int | float) and retry_after_ms >= 0:
        return min(retry_after_ms / 1000, _LONGEST_WAIT)
    said = str(headers.get("Retry-After") or "")
    return min(float(said), _LONGEST_WAIT) if said.isdigit() else _WAIT_SECONDS
