"""The state of the fake Discord: channels, messages and permissions."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

# Users, a guild with channels, and error responses.


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
    """An error response of Discord."""

    def __init__(
        self, status: int, code: int, message: str, headers: Record | None = None, **more: Any
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body: Record = {"message": message, "code": code, **more}
        self.headers = headers or {}


def too_many(seconds: float, *, is_global: bool = False) -> Refusal:
    """Return the error for a rate limit."""
    scope = "global" if is_global else "user"
    headers = {"Retry-After": f"{seconds:g}", "Via": "1.1 google", "X-RateLimit-Scope": scope}
    refusal = Refusal(429, 0, "You are being rate limited.", headers)
    refusal.body |= {"retry_after": seconds, "global": is_global}
    return refusal


def unknown_channel() -> Refusal:
    """Return the error for an unknown channel."""
    return Refusal(404, 10003, "Unknown Channel")


def missing_access() -> Refusal:
    """Return the error for a channel that the bot may not see."""
    return Refusal(403, 50001, "Missing Access")


def snowflake(after: int = 0) -> int:
    """Return a snowflake for the current time, greater than *after*."""
    return max(after + 1, (int(time.time() * 1000) - _EPOCH) << 22)


def shown_text(raw: str) -> str:
    """Return the visible text of Discord's Markdown."""
    return _MARKUP.sub(lambda found: next(filter(None, found.groups()), ""), raw)


_TEXT_CHANNEL: Final = 0
_DIRECT: Final = 1
_PUBLIC_THREAD: Final = 11
#: Longest text of a message.
_MAX_TEXT: Final = 2000


class Cut(NamedTuple):
    """A connection dropped before the response; with *is_done*, after the request took effect."""

    is_done: bool = False


@dataclass(slots=True)
class Sent:
    """A message of the bot, as users see it now."""

    channel_id: str
    message_id: str
    #: The text without markup.
    text: str
    #: The text as the bot sent it.
    raw: str
    nonce: str | None = None
    reply_to: str | None = None
    #: Earlier texts of an edited message.
    earlier: list[str] = field(default_factory=list)


class DiscordState:
    """The state. Every method holds `changed`."""

    def __init__(self, token: str) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.token = token
        self.sent: list[Sent] = []
        self.channels: dict[str, Record] = {}
        self.messages: defaultdict[str, list[Record]] = defaultdict(list)
        #: Roles by guild and user.
        self.members: dict[tuple[str, str], list[str]] = {
            (GUILD, ANNA["id"]): [],
            (GUILD, BERT["id"]): [],
        }
        #: Channels in which the bot may not write.
        self.blocked: set[str] = set()
        #: Contents of files by id.
        self.files: dict[str, bytes] = {}
        #: Requests of the bot: the route's name and the channel.
        self.asked: list[tuple[str, str]] = []
        self.typing: list[str] = []
        #: When the bot joined the guild.
        self.joined_at = "2020-01-01T00:00:00.000000+00:00"
        #: Full messages that the bot sent or edited.
        self.bodies: list[Record] = []
        self._faults: defaultdict[str, deque[Refusal | Cut]] = defaultdict(deque)
        self._last_id = 0
        self.add_channel(GENERAL, name="general", topic="Everything")
        self.add_channel(PUMPS, name="pumps")
        self.add_channel(THREAD, name="The broken one", type=_PUBLIC_THREAD, parent_id=GENERAL)

    def next_id(self) -> str:
        """Return an id greater than all others."""
        self._last_id = snowflake(self._last_id)
        return str(self._last_id)

    # ── channels───────────────────────────────────────────────────────────────────────────────

    def add_channel(self, channel_id: str | None = None, **fields: Any) -> str:
        """Create a channel or thread in the guild; return its id."""
        with self.changed:
            channel_id = channel_id or self.next_id()
            self.channels[channel_id] = {
                "id": channel_id,
                "type": _TEXT_CHANNEL,
                "guild_id": GUILD,
                "last_message_id": None,
                **fields,
            }
            return channel_id

    def direct_channel(self, user: Mapping[str, Any]) -> str:
        """Return the direct-message channel of a user."""
        with self.changed:
            channel_id = f"5{user['id'][1:]}"
            if channel_id not in self.channels:
                self.channels[channel_id] = {
                    "id": channel_id,
                    "type": _DIRECT,
                    "recipients": [dict(user)],
                    "last_message_id": None,
                }
            return channel_id

    def guild(self) -> Record:
        """Return the guild as bots receive it on connection."""
        with self.changed:
            own = [dict(each) for each in self.channels.values() if each.get("guild_id")]
        threads = [each for each in own if each["type"] == _PUBLIC_THREAD]
        return {
            "id": GUILD,
            "name": "Team",
            "unavailable": False,
            "joined_at": self.joined_at,
            "roles": [
                {"id": GUILD, "name": "@everyone"},
                {"id": MEMBERS, "name": "members"},
                {"id": BOT_ROLE, "name": "hermes", "tags": {"bot_id": BOT["id"]}},
            ],
            "channels": [each for each in own if each not in threads],
            "threads": [each for each in threads if not each.get("is_asleep")],
            "members": [],
        }

    def visible(self, channel_id: str) -> Record:
        """Return a channel, or raise the error for one the bot may not see."""
        channel = self.channels.get(channel_id)
        if channel is None:
            raise unknown_channel()
        if channel.get("is_hidden"):
            raise missing_access()
        return channel

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def add_message(self, channel_id: str, author: Mapping[str, Any], **fields: Any) -> Record:
        """Store a message and return it as the history shows it."""
        with self.changed:
            message = {
                "id": self.next_id(),
                "type": 0,
                "channel_id": channel_id,
                "author": dict(author),
                "content": "",
                "timestamp": datetime.now(UTC).isoformat(),
                "edited_timestamp": None,
                "tts": False,
                "mention_everyone": False,
                "mentions": [],
                "mention_roles": [],
                "attachments": [],
                "embeds": [],
                "pinned": False,
                **fields,
            }
            self.messages[channel_id].append(message)
            self.channels[channel_id]["last_message_id"] = message["id"]
            self.changed.notify_all()
            return message

    def told(self, message: Record) -> Record:
        """Return a message as a gateway event: with guild and member."""
        guild_id = self.channels.get(str(message.get("channel_id")), {}).get("guild_id")
        if guild_id is None:
            return message
        member: Record = {"nick": None}
        author = message.get("author")
        if isinstance(author, dict):
            member["roles"] = self.members.get((guild_id, str(author.get("id"))), [])
        return {**message, "guild_id": guild_id, "member": member}

    def send(self, channel_id: str, body: Record) -> tuple[Record, bool]:
        """Store a message of the bot; return it, and whether it is new."""
        with self.changed:
            self.bodies.append(body)
            channel = self.visible(channel_id)
            if channel_id in self.blocked:
                is_direct = channel["type"] == _DIRECT
                raise Refusal(403, *((50007, "No") if is_direct else (50013, "No permission")))
            text = _checked(body.get("content"))
            nonce = body.get("nonce")
            for earlier in self.sent if body.get("enforce_nonce") else ():
                if earlier.nonce == nonce:
                    return self.find(channel_id, earlier.message_id), False
            reference = body.get("message_reference") or {}
            message = self.add_message(
                channel_id, BOT, content=text, nonce=nonce, message_reference=reference or None
            )
            answered = reference.get("message_id")
            self.sent.append(
                Sent(channel_id, message["id"], shown_text(text), text, nonce, answered)
            )
            self.changed.notify_all()
            return message, True

    def edit(self, channel_id: str, message_id: str, body: Record) -> Record:
        """Edit a message of the bot."""
        with self.changed:
            self.bodies.append(body)
            self.visible(channel_id)
            message = self.find(channel_id, message_id)
            if message["author"]["id"] != BOT["id"]:
                raise Refusal(403, 50005, "Cannot edit a message authored by another user")
            message["content"] = _checked(body.get("content"))
            for sent in self.sent:
                if sent.message_id == message_id:
                    sent.earlier.append(sent.text)
                    sent.raw = message["content"]
                    sent.text = shown_text(sent.raw)
            self.changed.notify_all()
            return message

    def find(self, channel_id: str, message_id: str) -> Record:
        """Return a message."""
        for message in self.messages[channel_id]:
            if message["id"] == message_id:
                return message
        raise Refusal(404, 10008, "Unknown Message")

    def history(self, channel_id: str, after: int, limit: int) -> list[Record]:
        """Return the first messages after an id, newest first, as Discord does."""
        with self.changed:
            self.visible(channel_id)
            later = [each for each in self.messages[channel_id] if int(each["id"]) > after]
            return sorted(later, key=lambda each: int(each["id"]))[:limit][::-1]

    # ── what goes wrong ───────────────────────────────────────────────────────────────────────

    def plan(self, what: str, *faults: Refusal | Cut) -> None:
        """Make the next requests to a route fail, one per fault."""
        with self.changed:
            self._faults[what].extend(faults)

    def next_fault(self, what: str) -> Refusal | Cut | None:
        """Return the planned fault of a request, if any."""
        with self.changed:
            return self._faults[what].popleft() if self._faults[what] else None


def _checked(content: object) -> str:
    text = content.strip() if isinstance(content, str) else ""
    if not text:
        raise Refusal(400, 50006, "Cannot send an empty message")
    if len(text) > _MAX_TEXT:
        raise Refusal(400, 50035, "Invalid Form Body: Must be 2000 or fewer in length.")
    return text
