"""What signal-cli refuses, as the errors of the port.

Its codes: -1 the request cannot be fulfilled, -3 the network, -4 no key is trusted, -5 too many
messages; -32602 an account that it does not have. What became of it for each recipient is in
``data.response.results``.
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

#: There is no such method: the daemon has one account, and cannot list them.
NO_SUCH_METHOD: Final = -32601
_WRONG_PARAMS: Final = -32602
_CANNOT: Final = -1
_UNTRUSTED: Final = -4
_TOO_MANY: Final = -5

#: When signal-cli does not say how long to wait.
_WAIT_SECONDS: Final = 60.0
_FOR_EVER: Final = frozenset({"UNREGISTERED_FAILURE", "IDENTITY_FAILURE"})


def to_platform_error(error: RpcError) -> PlatformError:
    """Return what the gateway can act on."""
    results = _results(error.data)
    types = {result.get("type") for result in results}
    if error.code == _TOO_MANY or "RATE_LIMIT_FAILURE" in types:
        return _too_many(results)
    if error.code == _WRONG_PARAMS and "account" in error.message:
        return LoginRefused(
            f"signal-cli does not have the account of platforms.signal.account: {error.message}. "
            f"Is it registered or linked, by the same user? See docs/signal.md."
        )
    if types - _FOR_EVER or error.code not in {_CANNOT, _WRONG_PARAMS, _UNTRUSTED}:
        return Unreachable(f"signal-cli could not do it: {error.message} ({error.code})")
    if error.code == _UNTRUSTED or "IDENTITY_FAILURE" in types:
        return Undeliverable(
            "The safety number of the recipient has changed, and signal-cli does not trust the new "
            "one. Compare it with them, then: signal-cli -a ACCOUNT trust -v NUMBER RECIPIENT"
        )
    if types:
        return Undeliverable("The recipient is not on Signal any more.")
    return Undeliverable(f"signal-cli refuses it: {error.message}")


def _too_many(results: list[Mapping[str, object]]) -> RateLimited:
    waits = [wait for each in results if type(wait := each.get("retryAfterSeconds")) is int]
    words = "Signal asks to send more slowly."
    token = next((each["token"] for each in results if each.get("token")), None)
    if token is not None:
        words = (
            f"Signal wants a proof that a person is there. Solve the captcha as docs/signal.md "
            f"says, with --challenge {str(token)[:200]}, or wait."
        )
    return RateLimited(words, float(max([0, *waits]) or _WAIT_SECONDS))


def _results(data: object) -> list[Mapping[str, object]]:
    response = data.get("response") if isinstance(data, Mapping) else None
    results = response.get("results") if isinstance(response, Mapping) else None
    if not isinstance(results, list):
        return []
    return [each for each in results if isinstance(each, Mapping)]
