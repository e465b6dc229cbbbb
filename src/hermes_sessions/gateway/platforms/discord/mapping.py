"""Map messages of Discord to messages of the gateway. Pure; validates everything.

A message is parsed JSON, the same from the connection and from the history of a channel, and not an
object of the SDK, so that an unexpected one is skipped alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.events import Attachment, Inbound
from hermes_sessions.gateway.platforms.discord.directory import ChannelInfo, Directory
from hermes_sessions.gateway.platforms.discord.identifiers import is_snowflake, time_of
from hermes_sessions.gateway.platforms.payloads import (
    kind_of,
    record,
    short,
    size_of,
    text_of,
    within,
)
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.model.source import Platform, SessionSource

# Content besides text: files, stickers, polls, and the message that is answered.

#: As much of a quoted message as makes clear what is meant.
_MAX_QUOTED: Final = 1000
#: A reference that forwards a message, instead of answering it.
_FORWARD: Final = 1


def files_of(message: Record, where: str, limit: int) -> tuple[tuple[Attachment, ...], list[str]]:
    """Return the files of a message, and a line about each that is larger than *limit*.

    *where* is the prefix of their references. Discord's URLs of files expire, so a file is
    referenced by its message, which has the current URL.

    Raises:
        UnreadablePayload: a file is not what Discord documents.
    """
    files = [_attachment(each, where) for each in records(message, "attachments")]
    return within(limit, files)


def other_contents(message: Record) -> list[str]:
    """Return a description of content without text: stickers, a poll."""
    lines = [f"[Sticker: {name}]" for name in _names(message.get("sticker_items"))]
    poll = message.get("poll")
    if isinstance(poll, Mapping):
        question = short(_mapping(poll.get("question")).get("text"))
        answers = [
            short(_mapping(answer.get("poll_media")).get("text"))
            for answer in _loose(poll.get("answers"))
        ]
        lines.append(f"[Poll: {question or '?'} {' / '.join(each for each in answers if each)}]")
    return lines


def forwarded(message: Record) -> Record | None:
    """Return the message that this one forwards."""
    if _mapping(message.get("message_reference")).get("type") != _FORWARD:
        return None
    snapshots = _loose(message.get("message_snapshots"))
    return _mapping(snapshots[0].get("message")) if snapshots else None


def answered(message: Record) -> str | None:
    """Return the id of the message that this one answers."""
    reference = _mapping(message.get("message_reference"))
    message_id = reference.get("message_id")
    is_answer = reference.get("type", 0) != _FORWARD and is_snowflake(message_id)
    return message_id if is_answer else None


def answered_author(message: Record) -> str | None:
    """Return who wrote the message that this one answers."""
    author = _mapping(_mapping(message.get("referenced_message")).get("author")).get("id")
    return author if is_snowflake(author) and answered(message) else None


def quotation(message: Record, bot_id: str) -> str:
    """Return a quote of the message that is answered, to be put before the text.

    A reply to the bot needs none: its message is in the conversation.
    """
    if not answered(message) or answered_author(message) == bot_id:
        return ""
    original = _mapping(message.get("referenced_message"))
    words = original.get("content")
    if not isinstance(words, str) or not words.strip():
        return ""
    name = person(_mapping(original.get("author")))
    cut = words if len(words) <= _MAX_QUOTED else f"{words[:_MAX_QUOTED]}…"
    lines = f"{name}: {cut}" if name else cut
    return "\n".join(f"> {line}" for line in lines.splitlines()) + "\n\n"


def person(user: Record, member: object = None) -> str | None:
    """Return a user's name; on a server they may have another one."""
    nick = short(_mapping(member).get("nick"))
    return nick or short(user.get("global_name")) or short(user.get("username"))


def records(message: Record, name: str) -> Sequence[Record]:
    """Return a list of objects, empty if it is missing.

    Raises:
        UnreadablePayload: it is something else.
    """
    value = message.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise UnreadablePayload(f"{name} is not a list of objects.")
    return value


def _attachment(file: Record, where: str) -> Attachment:
    if not is_snowflake(file.get("id")):
        raise UnreadablePayload("A file has no usable id.")
    mime_type = short(file.get("content_type"))
    return Attachment(
        kind=kind_of(mime_type),
        reference=f"{where}/{file['id']}",
        name=short(file.get("filename")),
        mime_type=mime_type,
        size=size_of(file.get("size")),
    )


def _names(value: object) -> list[str]:
    return [name for each in _loose(value) if (name := short(each.get("name")))]


def _loose(value: object) -> list[Record]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _mapping(value: object) -> Record:
    return value if isinstance(value, Mapping) else {}


#: Discord's own limit is 4,000; a far longer text is not from there.
MAX_TEXT: Final = 100_000
#: In `Inbound.extra`: a private chat, where a reply need not reference the question.
DIRECT: Final = "direct"

#: Plain messages and replies; other types announce joins, pins and boosts.
_WRITTEN: Final = frozenset({0, 19})

Record = Mapping[str, Any]


class LocatedMessage(NamedTuple):
    """A message whose place in its channel is known."""

    channel_id: str
    message_id: str
    #: None: it is in a private chat, or from a history, which does not say.
    guild_id: str | None
    data: Record


def locate(message: object) -> LocatedMessage:
    """Return where a message stands.

    Raises:
        UnreadablePayload: it does not say so.
    """
    data = record(message, "message")
    channel_id, message_id = data.get("channel_id"), data.get("id")
    guild_id = data.get("guild_id")
    if not is_snowflake(channel_id) or not is_snowflake(message_id):
        raise UnreadablePayload("A message has no id, or is in no channel.")
    if guild_id is not None and not is_snowflake(guild_id):
        raise UnreadablePayload("message.guild_id is not an id.")
    return LocatedMessage(channel_id, message_id, guild_id, data)


@dataclass(frozen=True, slots=True)
class InboundReader:
    """Reads messages for one bot."""

    bot_id: str
    #: On servers, only commands, mentions of the bot and replies to it are for the bot.
    needs_mention: bool = True
    #: Channels and threads in which everything is.
    free_channels: frozenset[str] = frozenset()
    #: Names of commands; another word after a slash may be for another bot.
    commands: frozenset[str] = frozenset()
    #: Larger files are skipped, and the text says so.
    max_file_bytes: int = 20 * 1024**2
    _mention: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        mention = re.compile(rf"\s*<@!?{re.escape(self.bot_id)}>[\s,:]*")
        object.__setattr__(self, "_mention", mention)

    def read(
        self, message: LocatedMessage, channel: ChannelInfo, directory: Directory
    ) -> Inbound | None:
        """Return the message, None if it is not for the bot.

        Raises:
            UnreadablePayload: it is not what Discord documents, or far too large.
        """
        data = message.data
        author = record(data.get("author"), "message.author")
        if not is_snowflake(author.get("id")):
            raise UnreadablePayload("message.author has no id.")
        # Two bots would answer each other without end; the bot's own messages arrive, too.
        is_program = author.get("bot") or author.get("system") or data.get("webhook_id")
        if is_program or author["id"] == self.bot_id or data.get("type", 0) not in _WRITTEN:
            return None
        text = self._addressed(data, channel, directory)
        return None if text is None else self._message(message, channel, directory, author, text)

    def _message(
        self,
        message: LocatedMessage,
        channel: ChannelInfo,
        directory: Directory,
        author: Record,
        text: str,
    ) -> Inbound | None:
        data = message.data
        where = f"{message.channel_id}/{message.message_id}"
        files, left_out = files_of(data, where, self.max_file_bytes)
        shared = forwarded(data)
        if shared is not None:
            words = text_of(shared.get("content"), "message_snapshots")
            more, too_large = files_of(shared, where, self.max_file_bytes)
            files += more
            left_out += too_large
            said = [words, *other_contents(shared)]
            said = [part for part in said if part] or ([] if more or too_large else ["(no text)"])
            text = "\n".join(part for part in (text, "[Forwarded]", *said) if part)
        text = "\n".join(part for part in (text, *other_contents(data), *left_out) if part)
        if not text and not files:
            return None
        if not text.startswith("/"):
            text = quotation(data, self.bot_id) + text
        is_direct = channel.guild_id is None
        member = data.get("member")
        name = person(author, member)
        source = SessionSource(
            platform=Platform.DISCORD,
            # A thread belongs to its channel; one whose channel is not known stands for itself.
            chat_id=channel.parent_id or channel.id,
            chat_name=name if is_direct else directory.name_of(channel),
            chat_type="dm" if is_direct else "group",
            user_id=author["id"],
            user_name=name,
            thread_id=channel.id if channel.is_thread else None,
            chat_topic=channel.topic,
            guild_id=channel.guild_id,
            parent_chat_id=channel.parent_id,
            message_id=message.message_id,
        )
        return Inbound(
            source=source,
            text=text,
            message_id=message.message_id,
            sent_at=time_of(int(message.message_id)),
            attachments=files,
            reply_to=answered(data),
            extra={DIRECT: True} if is_direct else {},
            roles=() if is_direct else roles_of(member, channel),
            order=int(message.message_id),
        )

    def _addressed(self, data: Record, channel: ChannelInfo, directory: Directory) -> str | None:
        """Return the text without the bot's name before it, None if it is not for the bot.

        Every other mention stays as Discord writes it: ``<@1234>``.
        """
        text = text_of(data.get("content"), "message.content") or ""
        if len(text) > MAX_TEXT:
            raise UnreadablePayload(f"The text has {len(text):,} characters; Discord sends 4,000.")
        found = self._mention.match(text)
        rest = text[found.end() :] if found else text
        is_free = not self.needs_mention or self.free_channels & {
            channel.id,
            channel.parent_id or "",
        }
        if channel.guild_id is None or found or is_free or self._is_command(text):
            return rest
        mentioned = {each.get("id") for each in records(data, "mentions")}
        if self.bot_id in mentioned or answered_author(data) == self.bot_id:
            return rest
        guild = directory.guild_of(channel)
        roles = data.get("mention_roles")
        is_named = guild and guild.own_role and isinstance(roles, list) and guild.own_role in roles
        return rest if is_named else None

    def _is_command(self, text: str) -> bool:
        name = text[1:].partition(" ")[0].partition("\n")[0]
        return text.startswith("/") and name.lower() in self.commands


def roles_of(member: object, channel: ChannelInfo) -> tuple[str, ...]:
    """Return the ids of a member's roles, including @everyone.

    @everyone has the id of the server, and Discord does not list it.
    """
    roles: object = member.get("roles") if isinstance(member, Mapping) else None
    named: Iterable[object] = roles if isinstance(roles, list) else ()
    everyone = (channel.guild_id,) if channel.guild_id else ()
    return (*everyone, *(role for role in named if is_snowflake(role)))
