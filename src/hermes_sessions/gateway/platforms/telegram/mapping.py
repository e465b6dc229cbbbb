"""Map updates of Telegram's Bot API to messages of the gateway. Pure; validates everything.

An update is parsed JSON, not an object of the SDK, so that an unexpected one is skipped alone
instead of failing its whole batch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeGuard

from hermes_sessions.gateway.events import Attachment, Inbound, Part, Target
from hermes_sessions.gateway.platforms.payloads import Kind, record, short, text_of, within
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.model.source import Platform, SessionSource

# Quotes: what a message answers or forwards, which the agent cannot see otherwise.

#: As much of a quoted message as makes clear what is meant.
_MAX_QUOTED: Final = 1000


def introduction(message: Record, text: str, bot_id: int) -> str:
    """Return the prefix of *message*: its origin if forwarded, and what it answers.

    A reply to the bot needs no quote, unless the user selected one. A command stays a command,
    unless it was forwarded.
    """
    if origin := _mapping(message.get("forward_origin")):
        return f"[Forwarded from {_origin(origin) or 'unknown'}]\n"
    if text.startswith("/"):
        return ""
    answered = _mapping(message.get("reply_to_message")) or {}
    author = _mapping(answered.get("from")) or {}
    chosen = (_mapping(message.get("quote")) or {}).get("text")
    quoted = chosen if isinstance(chosen, str) else _words_of(answered)
    if not quoted.strip() or (quoted is not chosen and author.get("id") == bot_id):
        return ""
    name = person(author)
    cut = quoted if len(quoted) <= _MAX_QUOTED else f"{quoted[:_MAX_QUOTED]}…"
    lines = f"{name}: {cut}" if name else cut
    return "\n".join(f"> {line}" for line in lines.splitlines()) + "\n\n"


def person(record: Record) -> str | None:
    """Return a user's name."""
    names = (short(record.get("first_name")), short(record.get("last_name")))
    return " ".join(name for name in names if name) or short(record.get("username"))


def _origin(origin: Record) -> str | None:
    if sender := _mapping(origin.get("sender_user")):
        return person(sender)
    chat = _mapping(origin.get("sender_chat")) or _mapping(origin.get("chat")) or {}
    return short(origin.get("sender_user_name")) or short(chat.get("title"))


def _words_of(message: Record) -> str:
    for name in ("text", "caption"):
        if isinstance(words := message.get(name), str):
            return words
    return ""


def _mapping(value: object) -> Record | None:
    return value if isinstance(value, Mapping) else None


#: Telegram's own limit is 4,096; a far longer text is not from there.
MAX_TEXT: Final = 100_000
_WHOLE: Final = 2**63

_CHAT_TYPES: Final = {"private": "dm", "group": "group", "supergroup": "group"}
_FILES: Final[tuple[tuple[str, Kind], ...]] = (
    ("audio", "audio"),
    ("voice", "audio"),
    ("video", "video"),
    ("video_note", "video"),
    # An animation also comes as a document.
    ("animation", "video"),
    ("document", "document"),
    ("sticker", "other"),
)

Record = Mapping[str, Any]


class Album(NamedTuple):
    """Pictures that were sent together."""

    chat_id: str
    id: str


class Reading(NamedTuple):
    """The result of one update, or of those of an album."""

    #: The number of the last of them, which is confirmed after this was stored.
    number: int
    inbound: Inbound | None
    #: Why it was skipped, if it was not readable.
    problem: UnreadablePayload | None = None


@dataclass(frozen=True, slots=True)
class InboundReader:
    """Reads updates for one bot."""

    bot_id: int
    #: Without the ``@``.
    bot_name: str
    #: In groups, only commands, mentions of the bot and replies to it are for the bot.
    needs_mention: bool = True
    #: Larger files are skipped, and the text says so. Bots cannot download more than 20 MB.
    max_file_bytes: int = 20 * 1024**2

    def read_all(
        self, updates: Iterable[object], addressed: Collection[Album] = ()
    ) -> list[Reading]:
        """Return the messages in a batch of updates, in order, albums as one message. Albums in
        *addressed* are for the bot even if nothing in the batch says so.

        An update without a number cannot be confirmed, and is skipped.
        """
        updates = list(updates)
        addressed = {*addressed, *self.addressed_albums(updates)}
        readings: list[Reading] = []
        for update in updates:
            number = update_number(update)
            if number is None:
                continue
            reading = self._reading(number, update, album_of(update) in addressed)
            before = readings[-1].inbound if readings else None
            if before and reading.inbound and (joined := join_album(before, reading.inbound)):
                readings[-1] = Reading(number, joined)
            else:
                readings.append(reading)
        return readings

    def _reading(self, number: int, update: object, is_addressed: bool) -> Reading:
        try:
            return Reading(number, self.read(update, is_addressed=is_addressed))
        except UnreadablePayload as problem:
            return Reading(number, None, problem)

    def addressed_albums(self, updates: Iterable[object]) -> set[Album]:
        """Return the albums with a picture that is for the bot."""
        return {
            album
            for update in updates
            if (album := album_of(update)) and self._is_for_the_bot(update)
        }

    def _is_for_the_bot(self, update: object) -> bool:
        try:
            return self.read(update) is not None
        except UnreadablePayload:
            return False

    def read(self, update: object, *, is_addressed: bool = False) -> Inbound | None:
        """Return the message in *update*, None if it has none for the bot.

        With *is_addressed*, it is for the bot even if it does not mention it.

        Raises:
            UnreadablePayload: it is not what Telegram documents, or far too large.
        """
        if not isinstance(update, Mapping):
            raise UnreadablePayload("An update is not an object.")
        message = update.get("message")
        if message is None:  # an edit, a post in a channel, a click: not asked for
            return None
        message = record(message, "message")
        chat = record(message.get("chat"), "message.chat")
        chat_type = _CHAT_TYPES.get(text_of(chat.get("type"), "message.chat.type") or "")
        sender = message.get("from")
        if chat_type is None or sender is None or message.get("is_automatic_forward"):
            return None
        sender = record(sender, "message.from")
        if sender.get("is_bot"):
            return None
        needs_mention = self.needs_mention and chat_type == "group" and not is_addressed
        text = self._addressed(_written(message), message, needs_mention=needs_mention)
        return None if text is None else self._message(message, chat, chat_type, sender, text)

    def _message(
        self, message: Record, chat: Record, chat_type: str, sender: Record, text: str
    ) -> Inbound | None:
        attachments, left_out = self._files(message)
        text = "\n".join(part for part in (text, _location(message), *left_out) if part)
        if not text and not attachments:
            return None  # a user joined, a topic was renamed, …
        text = introduction(message, text, self.bot_id) + text
        message_id = str(_whole(message.get("message_id"), "message.message_id"))
        thread_id = _thread_of(message)
        source = SessionSource(
            platform=Platform.TELEGRAM,
            chat_id=str(_whole(chat.get("id"), "message.chat.id")),
            chat_name=short(chat.get("title")) or person(chat),
            chat_type=chat_type,
            user_id=str(_whole(sender.get("id"), "message.from.id")),
            user_name=person(sender),
            thread_id=thread_id,
            chat_topic=_topic_name(message),
            message_id=message_id,
        )
        album = text_of(message.get("media_group_id"), "message.media_group_id")
        return Inbound(
            source=source,
            text=text,
            message_id=message_id,
            sent_at=_time(message.get("date")),
            attachments=attachments,
            reply_to=_answered(message, thread_id),
            extra={"album": album} if album else {},
            order=int(message_id),
        )

    def _addressed(self, text: str, message: Record, *, needs_mention: bool) -> str | None:
        """Return the text without the bot's name, None if it is not for the bot."""
        command, _, rest = text.partition(" ")
        if command.startswith("/") and "@" in command:
            name, _, addressee = command.partition("@")
            if addressee.lower() != self.bot_name.lower():
                return None
            return f"{name} {rest}".rstrip()
        mention = re.compile(rf"@{re.escape(self.bot_name)}(?!\w)[ ,:\t\n]*", re.IGNORECASE)
        found = mention.search(text)
        if found and found.start() == 0:
            text = text[found.end() :]
        if not needs_mention or found or command.startswith("/"):
            return text
        answered = message.get("reply_to_message")
        author = answered.get("from") if isinstance(answered, Mapping) else None
        is_answer = isinstance(author, Mapping) and author.get("id") == self.bot_id
        return text if is_answer else None

    def _files(self, message: Record) -> tuple[tuple[Attachment, ...], list[str]]:
        files: list[Attachment] = []
        if photos := message.get("photo"):
            sizes = [record(size, "message.photo") for size in _list(photos, "message.photo")]
            # The same picture in several sizes; the largest that may be fetched.
            fitting = [size for size in sizes if _size(size) <= self.max_file_bytes] or sizes
            files.append(_attachment("photo", max(fitting, key=_size)))
        for name, kind in _FILES:
            if (file := message.get(name)) is not None:
                files.append(_attachment(kind, record(file, f"message.{name}")))
                break
        return within(self.max_file_bytes, files)


def join_album(first: Inbound, following: Inbound) -> Inbound | None:
    """Return two messages of one album as one, None if they are not of one album.

    Telegram sends every picture of an album as a message of its own.
    """
    album = first.extra.get("album")
    if not album or following.extra.get("album") != album:
        return None
    if replace(first.source, message_id=None) != replace(following.source, message_id=None):
        return None
    return first.only([*(first.parts or [_part(first)]), _part(following)])


def _part(inbound: Inbound) -> Part:
    if inbound.message_id is None:
        raise AssertionError("every message on Telegram has a number")
    return Part(inbound.message_id, inbound.text, inbound.attachments, inbound.order)


def target_of(inbound: Inbound) -> Target:
    """Return where a reply to a message goes."""
    return Target(
        platform=Platform.TELEGRAM.value,
        chat_id=inbound.source.chat_id,
        thread_id=inbound.source.thread_id,
        reply_to=inbound.message_id if inbound.source.chat_type != "dm" else None,
    )


def update_number(update: object) -> int | None:
    """Return the number by which an update is confirmed, None if it has none."""
    number = update.get("update_id") if isinstance(update, Mapping) else None
    return number if _is_whole(number) else None


def album_of(update: object) -> Album | None:
    """Return the album that an update is of."""
    message = update.get("message") if isinstance(update, Mapping) else None
    chat = message.get("chat") if isinstance(message, Mapping) else None
    if not isinstance(message, Mapping) or not isinstance(chat, Mapping):
        return None
    album, chat_id = message.get("media_group_id"), chat.get("id")
    return Album(str(chat_id), album) if isinstance(album, str) and _is_whole(chat_id) else None


def _written(message: Record) -> str:
    text = text_of(message.get("text"), "message.text") or text_of(
        message.get("caption"), "message.caption"
    )
    if text and len(text) > MAX_TEXT:
        raise UnreadablePayload(f"The text has {len(text):,} characters; Telegram sends 4,096.")
    return text or ""


def _thread_of(message: Record) -> str | None:
    """Return the topic. In groups without topics, the thread id of a reply is not a topic."""
    if not message.get("is_topic_message") or message.get("message_thread_id") is None:
        return None
    return str(_whole(message["message_thread_id"], "message.message_thread_id"))


def _topic_name(message: Record) -> str | None:
    root = message.get("reply_to_message")
    created = root.get("forum_topic_created") if isinstance(root, Mapping) else None
    return short(created.get("name")) if isinstance(created, Mapping) else None


def _answered(message: Record, thread_id: str | None) -> str | None:
    root = message.get("reply_to_message")
    if not isinstance(root, Mapping) or not _is_whole(root.get("message_id")):
        return None
    answered = str(root["message_id"])
    # Everything in a topic replies to its first message, unless it replies to another.
    return None if answered == thread_id else answered


def _location(message: Record) -> str:
    """Return a description of content without text: a location, a contact."""
    location = message.get("location")
    if isinstance(location, Mapping):
        return f"[Location: {location.get('latitude')!s:.32}, {location.get('longitude')!s:.32}]"
    contact = message.get("contact")
    if isinstance(contact, Mapping):
        return f"[Contact: {person(contact) or ''} {contact.get('phone_number')!s:.64}]"
    return ""


def _attachment(kind: Kind, file: Record) -> Attachment:
    reference = text_of(file.get("file_id"), "file_id")
    if not reference or len(reference) > 1024:
        raise UnreadablePayload("A file has no usable file_id.")
    return Attachment(
        kind=kind,
        reference=reference,
        name=short(file.get("file_name")),
        mime_type=short(file.get("mime_type")),
        size=_size(file) or None,
    )


def _size(file: Record) -> int:
    size: object = file.get("file_size")
    return size if _is_whole(size) and size >= 0 else 0


def _time(value: object) -> float | None:
    return float(value) if _is_whole(value) else None


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and -_WHOLE < value < _WHOLE


def _whole(value: object, what: str) -> int:
    if not _is_whole(value):
        raise UnreadablePayload(f"{what} is not a number.")
    return value


def _list(value: object, what: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise UnreadablePayload(f"{what} is not a list.")
    return value
