"""Map Discord's errors to those of the port, with messages that say what to do."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import aiohttp
import discord

from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Undeliverable,
    Unreachable,
)

PORTAL: Final = "https://discord.com/developers/applications"


class ReplyReferenceRefused(Undeliverable):
    """The message to reply to cannot be referenced; the text itself is not refused."""


_WRONG_TOKEN: Final = (
    f"Discord does not accept the bot token. Under Bot in {PORTAL}, Reset Token shows a new one: "
    f"copy it into platforms.discord.token."
)
#: Permanent reasons for which Discord closes the connection, by its code.
_CLOSED: Final[Mapping[int, str]] = {
    4004: _WRONG_TOKEN,
    4010: "Discord requires several connections for the bot's servers (sharding), "
    "which is not supported.",
    4011: "The bot is on too many servers for one connection, and several (sharding) are not "
    "supported.",
    4012: "Discord no longer supports this version of its protocol: update discord.py.",
    4013: "Discord does not know the requested intents: update discord.py.",
    4014: f"The bot may not read messages. In {PORTAL}, choose the application, then Bot, "
    f"and turn on Message Content Intent under Privileged Gateway Intents.",
}
_REFUSALS: Final[Mapping[int, str]] = {
    10003: "The channel no longer exists, or the bot cannot see it.",
    10008: "The message no longer exists.",
    50001: "The bot cannot see this channel: it needs View Channel there.",
    50007: "The user does not accept messages from the bot: they blocked it, or allow none from "
    "members of the servers that they share with it.",
    50013: "The bot may not write here: it needs Send Messages, and Send Messages in Threads in a "
    "thread.",
    50083: "The thread is archived and locked.",
}
#: To point to a message, a bot must be allowed to read the history.
_NO_HISTORY: Final = 160002
#: If Discord does not say how long to wait.
_WAIT_SECONDS: Final = 60.0
_LONGEST_WAIT: Final = 86_400.0


def closing_refusal(code: int | None) -> PlatformError:
    """Return why Discord closed the connection, by its code."""
    words = _CLOSED.get(code or 0)
    if words is not None:
        return LoginRefused(words)
    return Unreachable(f"Discord closed the connection ({code}).")


def to_platform_error(error: discord.HTTPException) -> PlatformError:
    """Return an error response of Discord as an error of the port."""
    words = _REFUSALS.get(error.code, f"Discord refuses it: {error.text[:500] or error.status}")
    if error.status == 401:
        return LoginRefused(_WRONG_TOKEN)
    if error.status == 429:
        return RateLimited("Discord's rate limit was reached.", _retry_after(error))
    if error.status >= 500 or error.status == 408:
        return Unreachable(f"Discord is temporarily unavailable ({error.status}).")
    if error.code == _NO_HISTORY or "message_reference" in error.text:
        return ReplyReferenceRefused(words)
    return Undeliverable(words)


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the SDK into those of the port."""
    try:
        yield
    except discord.LoginFailure as error:
        raise LoginRefused(_WRONG_TOKEN) from error
    except discord.RateLimited as error:
        wait = min(max(error.retry_after, 0.0), _LONGEST_WAIT)
        raise RateLimited("Discord's rate limit was reached.", wait) from error
    except discord.HTTPException as error:
        raise to_platform_error(error) from error
    except discord.ConnectionClosed as error:
        raise closing_refusal(error.code) from error
    except (aiohttp.ClientError, OSError, TimeoutError, zlib.error) as error:
        raise Unreachable(
            f"Discord cannot be reached: {str(error) or type(error).__name__}"
        ) from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # The SDK assumes that answers are as documented.
        raise Unreachable("Discord's response is not readable.") from error


def _retry_after(error: discord.HTTPException) -> float:
    # A proxy in front of Discord says so in a header, if at all.
    try:
        seconds = float(error.response.headers.get("Retry-After", ""))
    except ValueError:
        return _WAIT_SECONDS
    return min(max(seconds, 0.0), _LONGEST_WAIT)
