"""Map signal-cli's errors to errors of the port.

Its codes: -1 the request cannot be fulfilled, -3 network, -4 untrusted key, -5 rate limit; -32602
unknown account. The result of each recipient is in ``data.response.results``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Undeliverable,
    Unreachable,
)
from hermes_sessions.gateway.platforms.signal.rpc import RpcError

#: Method not found: the daemon has one account, and cannot list accounts.
NO_SUCH_METHOD: Final = -32601
_WRONG_PARAMS: Final = -32602
_CANNOT: Final = -1
_UNTRUSTED: Final = -4
_TOO_MANY: Final = -5

#: Default pause if signal-cli names none.
_WAIT_SECONDS: Final = 60.0
_FOR_EVER: Final = frozenset({"UNREGISTERED_FAILURE", "IDENTITY_FAILURE"})


def to_platform_error(error: RpcError) -> PlatformError:
    """Return the error of the port for an error response."""
    results = _results(error.data)
    types = {result.get("type") for result in results}
    if error.code == _TOO_MANY or "RATE_LIMIT_FAILURE" in types:
        return _too_many(results)
    if error.code == _WRONG_PARAMS and "account" in error.message:
        return LoginRefused(
            f"signal-cli does not have the account in platforms.signal.account: {error.message}. "
            "Register or link it with the same user: see docs/signal.md."
        )
    if types - _FOR_EVER or error.code not in {_CANNOT, _WRONG_PARAMS, _UNTRUSTED}:
        return Unreachable(f"signal-cli failed: {error.message} ({error.code})")
    if error.code == _UNTRUSTED or "IDENTITY_FAILURE" in types:
        return Undeliverable(
            "The safety number of the recipient has changed, and signal-cli does not trust the new "
            "one. Compare it with them, then: signal-cli -a ACCOUNT trust -v NUMBER RECIPIENT"
        )
    if types:
        return Undeliverable("The recipient is no longer on Signal.")
    return Undeliverable(f"signal-cli refused the request: {error.message}")


def _too_many(results: list[Mapping[str, object]]) -> RateLimited:
    waits = [wait for each in results if type(wait := each.get("retryAfterSeconds")) is int]
    words = "Signal's rate limit was reached."
    token = next((each["token"] for each in results if each.get("token")), None)
    if token is not None:
        words = (
            "Signal asks for a captcha. Solve it as described in docs/signal.md, with "
            f"--challenge {str(token)[:200]}, or wait."
        )
    return RateLimited(words, float(max([0, *waits]) or _WAIT_SECONDS))


def _results(data: object) -> list[Mapping[str, object]]:
    response = data.get("response") if isinstance(data, Mapping) else None
    results = response.get("results") if isinstance(response, Mapping) else None
    if not isinstance(results, list):
        return []
    return [each for each in results if isinstance(each, Mapping)]
