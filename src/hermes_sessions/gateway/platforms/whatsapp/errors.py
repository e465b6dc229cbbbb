"""Map Meta's error codes to errors of the port, with messages that say what to do."""

from __future__ import annotations

from typing import Final, NamedTuple

from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Undeliverable,
    Unreachable,
)

#: Default pauses if Meta names none: a few seconds between messages to one user, longer for a
#: number and its account.
_PAUSES: Final = {131056: 4.0, 130429: 5.0, 131048: 300.0, 133016: 600.0, 80007: 60.0, 4: 60.0}
_SHORTEST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 86400.0

_LOGIN: Final = {
    0: "Meta does not accept the access token; put a new one into platforms.whatsapp.token.",
    3: "The app may not use WhatsApp: give it the permission whatsapp_business_messaging.",
    10: "The permission whatsapp_business_messaging is missing; give it to the system user.",
    190: "The access token has expired or was revoked; put a new one into "
    "platforms.whatsapp.token.",
    200: "The permission whatsapp_business_messaging is missing; give it to the system user.",
    368: "Meta has blocked the account for breaking its policies; see WhatsApp Manager.",
    131005: "The permission whatsapp_business_messaging is missing; give it to the system user.",
    131031: "Meta has locked the business account; see WhatsApp Manager.",
    131042: "Meta cannot charge the business account; check the payment method in WhatsApp "
    "Manager.",
    133010: "The number is not registered with the Cloud API; see docs/whatsapp.md.",
}
_UNDELIVERABLE: Final = {
    131021: "The number cannot write to itself.",
    131026: "WhatsApp cannot deliver it: the recipient has no WhatsApp account, blocked this "
    "number, has not accepted WhatsApp's terms, or uses an outdated version.",
    131030: "Test numbers can write only to numbers that are listed in the app: add this one "
    "under WhatsApp > API Setup.",
    131047: "The recipient's last message is more than 24 hours old. WhatsApp then accepts only "
    "approved templates; resend the reply after they have written.",
    131049: "WhatsApp does not deliver it, because the recipient got too many messages from "
    "businesses.",
    131050: "The recipient has opted out of messages.",
}
#: Temporary failures of Meta.
_PASSING: Final = frozenset({1, 2, 131000, 131016, 131057, 133004})


class ErrorReply(NamedTuple):
    """An error response of Meta."""

    status: int
    code: int | None = None
    words: str = ""
    #: How long to wait, if Meta says so.
    seconds: float | None = None


def explain_error(code: int | None, words: str | None) -> str:
    """Return a message for people, with Meta's error code to look up."""
    known = None if code is None else _UNDELIVERABLE.get(code) or _LOGIN.get(code)
    said = (known or words or "Meta gives no reason").rstrip(".")
    return said if code is None else f"{said} (WhatsApp error {code})"


def to_platform_error(reply: ErrorReply) -> PlatformError:
    """Return the error of the port for an error response."""
    code, status = reply.code, reply.status
    words = explain_error(code, reply.words or f"Meta responded with {status}")
    if code in _PAUSES or status == 429:
        pause = reply.seconds
        if pause is None:
            pause = _PAUSES.get(code or 0, _SHORTEST_PAUSE)
        return RateLimited(words, min(max(pause, 0.0), _LONGEST_PAUSE))
    if code in _LOGIN or status == 401 or (code is not None and 200 <= code <= 299):
        return LoginRefused(words)
    # Without a code, the response is not from the Graph API but from a server in front of it.
    if code is None or code in _PASSING or status >= 500:
        return Unreachable(words)
    return Undeliverable(words)
