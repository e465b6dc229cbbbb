"""What Discord on this machine is made of: people, a server with channels, and what it refuses."""

from __future__ import annotations

import re
import time
from typing import Any, Final

Record = dict[str, Any]

TOKEN: Final = "MTAwMDAwMDAwMDAwMDAwMDAx.Gabcde.opens-nothing-at-all-anywhere-00000000"  # noqa: S105
BOT: Final[Record] = {"id": "1000000000000000001", "username": "hermes", "bot": True}
ANNA: Final[Record] = {"id": "7000000000000000001", "username": "anna", "global_name": "Anna"}
BERT: Final[Record] = {"id": "7000000000000000002", "username": "bert", "global_name": "Bert"}
ROBOT: Final[Record] = {"id": "7000000000000000003", "username": "robot", "bot": True}

GUILD: Final = "2000000000000000001"
GENERAL: Final = "3000000000000000001"
PUMPS: Final = "3000000000000000002"
#: A thread in the channel GENERAL.
THREAD: Final = "3000000000000000003"
MEMBERS: Final = "4000000000000000001"
#: The role that Discord makes for a bot when it joins.
BOT_ROLE: Final = "4000000000000000002"

_EPOCH: Final = 1_420_070_400_000

_MARKUP: Final = re.compile(
    r"```[\w+#.-]*\n(?P<block>.*?)\n?```|`(?P<code>[^`]+)`|\*\*(?P<bold>.+?)\*\*"
    r"|~~(?P<struck>.+?)~~|^#{1,3} (?P<title>.+?)$",
    re.DOTALL | re.MULTILINE,
)


class Refusal(Exception):
    """What Discord answers instead of a result."""

    def __init__(
        self, status: int, code: int, message: str, headers: Record | None = None, **more: Any
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body: Record = {"message": message, "code": code, **more}
        self.headers = headers or {}


def too_many(seconds: float, *, is_global: bool = False) -> Refusal:
    """Return the answer to one request too many."""
    scope = "global" if is_global else "user"
    headers = {"Retry-After": f"{seconds:g}", "Via": "1.1 google", "X-RateLimit-Scope": scope}
    refusal = Refusal(429, 0, "You are being rate limited.", headers)
    refusal.body |= {"retry_after": seconds, "global": is_global}
    return refusal


def unknown_channel() -> Refusal:
    """Return the answer about a channel that is not there."""
    return Refusal(404, 10003, "Unknown Channel")


def missing_access() -> Refusal:
    """Return the answer about a channel that the bot may not see."""
    return Refusal(403, 50001, "Missing Access")


def snowflake(after: int = 0) -> int:
    """Return an id of now, above *after*."""
    return max(after + 1, (int(time.time() * 1000) - _EPOCH) << 22)


def shown_text(raw: str) -> str:
    """Return what people read: Discord's markup is shown, not its signs."""
    return _MARKUP.sub(lambda found: next(filter(None, found.groups()), ""), raw)
