"""What a message on Discord holds besides words: files, stickers, polls, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hermes_sessions.gateway.events import Attachment
from hermes_sessions.gateway.platforms.attachments import kind_of, size_of, within
from hermes_sessions.gateway.platforms.discord.identifiers import is_snowflake
from hermes_sessions.gateway.platforms.payloads import short
from hermes_sessions.gateway.platforms.port import UnreadablePayload

Record = Mapping[str, Any]

#: As much of a quoted message as makes clear what is meant.
_MAX_QUOTED: Final = 1000
#: A reference that forwards a message, instead of answering it.
_FORWARD: Final = 1


def files_of(message: Record, where: str, limit: int) -> tuple[tuple[Attachment, ...], list[str]]:
    """Return the files of a message, and a line about each that is larger than *limit*.

    *where* is what their references begin with. Discord's addresses of files expire: a file is
    known by its message, of which the address of the day is asked for.

    Raises:
        UnreadablePayload: a file is not what Discord documents.
    """
    files = [_attachment(each, where) for each in records(message, "attachments")]
    return within(limit, files)


def other_contents(message: Record) -> list[str]:
    """Return in words what has no text: stickers, a poll."""
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
    """Return the words that a message answers, as they stand before it.

    An answer to the bot itself needs none: they are in the conversation.
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
    """Return what somebody is called; on a server they may have another name."""
    nick = short(_mapping(member).get("nick"))
    return nick or short(user.get("global_name")) or short(user.get("username"))


def records(message: Record, name: str) -> Sequence[Record]:
    """Return a list of objects, empty when it is not there.

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
