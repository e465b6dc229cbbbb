"""The bot's servers, channels, threads and names, as Discord sends them in events.

Makes no requests. Undocumented data is ignored: at worst a name is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from hermes_sessions.gateway.platforms.discord.identifiers import is_snowflake, snowflake_at
from hermes_sessions.gateway.platforms.payloads import short

#: Channel types with messages: text, voice, announcements, stages. Others hold channels or threads.
_CHANNELS: Final = frozenset({0, 2, 5, 13})
#: Threads of announcements, public and private threads.
_THREADS: Final = frozenset({10, 11, 12})

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A channel or a thread."""

    id: str
    name: str | None = None
    topic: str | None = None
    is_thread: bool = False
    #: Whether it has messages, and not only threads or other channels.
    holds_messages: bool = True
    #: Parent channel of a thread.
    parent_id: str | None = None
    #: None for a private chat.
    guild_id: str | None = None
    #: As of the latest event about the channel.
    last_message_id: int = 0


@dataclass(frozen=True, slots=True)
class Guild:
    """A server."""

    id: str
    name: str | None = None
    #: The role that Discord created for the bot: users mention it as if it were the bot.
    own_role: str | None = None
    #: The smallest id after the bot joined; earlier messages were not for it.
    joined: int = 0


@dataclass(slots=True)
class Directory:
    """Servers and channels, by id."""

    bot_id: str
    guilds: dict[str, Guild] = field(default_factory=dict)
    channels: dict[str, ChannelInfo] = field(default_factory=dict)
    #: Servers of the bot that Discord has not sent yet.
    expected: set[str] = field(default_factory=set)

    def expect(self, guilds: object) -> None:
        """Remember which servers Discord will send next, or after their outage."""
        found = {each["id"] for each in _records(guilds) if is_snowflake(each.get("id"))}
        self.expected = found - set(self.guilds)

    def take(self, event: str, data: object) -> None:
        """Update from an event; ignores events that are not about channels."""
        handle = _EVENTS.get(event)
        if handle is not None and isinstance(data, Mapping):
            handle(self, data)

    def add(self, channel: object, guild_id: object = None) -> ChannelInfo | None:
        """Remember a channel or thread, and return it; None if it is not what Discord documents."""
        if not isinstance(channel, Mapping) or not is_snowflake(channel.get("id")):
            return None
        guild = channel.get("guild_id") or guild_id
        parent, last = channel.get("parent_id"), channel.get("last_message_id")
        kind = channel.get("type")
        is_thread = kind in _THREADS
        found = ChannelInfo(
            id=channel["id"],
            name=short(channel.get("name")),
            topic=short(channel.get("topic")),
            is_thread=is_thread,
            holds_messages=is_thread or kind in _CHANNELS,
            parent_id=parent if is_thread and is_snowflake(parent) else None,
            guild_id=guild if is_snowflake(guild) else None,
            last_message_id=int(last) if is_snowflake(last) else 0,
        )
        self.channels[found.id] = found
        return found

    def channels_of(self, guild_id: str) -> list[ChannelInfo]:
        """Return the channels and threads of a server."""
        return [found for found in self.channels.values() if found.guild_id == guild_id]

    def guild_of(self, found: ChannelInfo) -> Guild | None:
        """Return the server of a channel, None if unknown."""
        return self.guilds.get(found.guild_id or "")

    def name_of(self, found: ChannelInfo) -> str | None:
        """Return the name of a channel with its server: ``Team / #pumps / The broken one``."""
        guild = self.guild_of(found)
        parent = self.channels.get(found.parent_id or "") if found.is_thread else None
        names = [guild.name if guild else None]
        names.append(f"#{parent.name}" if parent and parent.name else None)
        names.append(found.name if found.is_thread or not found.name else f"#{found.name}")
        return " / ".join(name for name in names if name) or None

    def _guild(self, data: Record) -> None:
        guild_id = data.get("id")
        if not is_snowflake(guild_id) or data.get("unavailable"):
            return
        roles = _records(data.get("roles"))
        own = next((role for role in roles if _bot_of(role) == self.bot_id), {}).get("id")
        role_id = own if is_snowflake(own) else None
        # Only the first event about a server has this field.
        known = self.guilds.get(guild_id)
        joined = _moment(data.get("joined_at")) or (known.joined if known else 0)
        self.guilds[guild_id] = Guild(guild_id, short(data.get("name")), role_id, joined)
        for channel in (*_records(data.get("channels")), *_records(data.get("threads"))):
            self.add(channel, guild_id)
        # Last, because other threads read this set.
        self.expected.discard(guild_id)

    def _guild_gone(self, data: Record) -> None:
        # After an outage the server returns unchanged.
        if not data.get("unavailable") and is_snowflake(data.get("id")):
            self.guilds.pop(data["id"], None)
            self.expected.discard(data["id"])
            for found in self.channels_of(data["id"]):
                del self.channels[found.id]

    def _channel(self, data: Record) -> None:
        self.add(data)

    def _channel_gone(self, data: Record) -> None:
        self.channels.pop(str(data.get("id")), None)

    def _threads(self, data: Record) -> None:
        for thread in _records(data.get("threads")):
            self.add(thread, data.get("guild_id"))


_EVENTS: Final[Mapping[str, Callable[[Directory, Record], None]]] = {
    "GUILD_CREATE": Directory._guild,
    "GUILD_UPDATE": Directory._guild,
    "GUILD_DELETE": Directory._guild_gone,
    "CHANNEL_CREATE": Directory._channel,
    "CHANNEL_UPDATE": Directory._channel,
    "CHANNEL_DELETE": Directory._channel_gone,
    "THREAD_CREATE": Directory._channel,
    "THREAD_UPDATE": Directory._channel,
    "THREAD_DELETE": Directory._channel_gone,
    "THREAD_LIST_SYNC": Directory._threads,
}
#: Events that `Directory.take` reads.
CHANNEL_EVENTS: Final = tuple(_EVENTS)


def _moment(value: object) -> int:
    """Return the smallest id at a timestamp, 0 if it is not valid."""
    try:
        return snowflake_at(datetime.fromisoformat(str(value)).timestamp())
    except (OverflowError, ValueError):
        return 0


def _bot_of(role: Record) -> object:
    tags = role.get("tags")
    return tags.get("bot_id") if isinstance(tags, Mapping) else None


def _records(value: object) -> Iterable[Record]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
