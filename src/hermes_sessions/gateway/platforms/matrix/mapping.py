"""Map events of Matrix to messages of the gateway. Pure; validates everything.

An event is parsed JSON, decrypted if it was encrypted, and not an object of the SDK, so that an
unexpected one is skipped alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

from hermes_sessions.gateway.events import Attachment, Inbound
from hermes_sessions.gateway.platforms.matrix.attachments import (
    FILE_TYPES,
    attachment_of,
    caption_of,
)
from hermes_sessions.gateway.platforms.matrix.identifiers import (
    is_event_id,
    is_user_id,
    local_part,
    server_of,
)
from hermes_sessions.gateway.platforms.payloads import record, short, within
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.model.source import Platform, SessionSource

# Whether a message in a room is for the bot, and its text without the bot's name. Pure.

#: The fallback of replies: quoted lines of the message that is answered.
_FALLBACK: Final = re.compile(r"> (?:\* )?<(@[^>\s]+)> ?([^\n]*(?:\n>[^\n]*)*)\n\n?")


_BANG_COMMAND: Final = re.compile(r"!([A-Za-z][A-Za-z_-]*)(?=\s|$)")


@dataclass(frozen=True, slots=True)
class ReplyFallback:
    """A quote in a reply."""

    author: str
    text: str


@dataclass(frozen=True, slots=True)
class BotNames:
    """The bot's names."""

    user_id: str
    #: Its display name in the room.
    display_name: str | None = None
    #: Names of commands, which may also start with an exclamation mark: clients handle a leading
    #: slash themselves.
    commands: frozenset[str] = frozenset()

    def is_addressed(self, content: Record, text: str) -> bool:
        """Return whether a message mentions the bot or is a command; *text* is its whole text."""
        mentions = content.get("m.mentions")
        if isinstance(mentions, Mapping):
            named = mentions.get("user_ids")
            if isinstance(named, list) and self.user_id in named:
                return True
        if text.startswith("/") or self.user_id in text or self._name_prefix().match(text):
            return True
        markup = content.get("formatted_body")
        if not isinstance(markup, str):
            return False
        links = (self.user_id, quote(self.user_id, safe="@:"), quote(self.user_id, safe=""))
        return any(f"matrix.to/#/{link}" in markup for link in links)

    def without_name(self, text: str) -> str:
        """Return *text* without the bot's name at its start."""
        found = self._name_prefix().match(text)
        return text[found.end() :] if found else text

    def as_command(self, text: str) -> str:
        """Return ``!new`` as ``/new`` if that is a command; anything else unchanged."""
        found = _BANG_COMMAND.match(text)
        if found and found[1].lower() in self.commands:
            return f"/{text[1:]}"
        return text

    def _name_prefix(self) -> re.Pattern[str]:
        whole, short = re.escape(self.user_id), re.escape(local_part(self.user_id))
        shown = f"|{re.escape(self.display_name)}" if self.display_name else ""
        # A name without @ must be followed by punctuation: "Hermes is a god" does not address the
        # bot. After a short name with @, a colon may be part of another user's id.
        opening = rf"(?:{whole}(?:[,:]|(?=\s|$))|@{short}[,:]?(?=\s|$)|(?:{short}{shown})[,:])\s*"
        return re.compile(opening, re.IGNORECASE)


def split_fallback(content: Record, text: str) -> tuple[ReplyFallback | None, str]:
    """Split a reply into its quote and its own text."""
    relation = content.get("m.relates_to")
    if not isinstance(relation, Mapping) or "m.in_reply_to" not in relation:
        return None, text
    found = _FALLBACK.match(text)
    if found is None:
        return None, text
    lines = found[2].split("\n")
    quoted = "\n".join([lines[0], *(re.sub(r"^> ?", "", line) for line in lines[1:])])
    return ReplyFallback(found[1], quoted), text[found.end() :]


#: An event has at most 65,536 bytes; a longer text is not from there.
MAX_TEXT: Final = 100_000
#: As much of a quoted message as makes clear what is meant.
_MAX_QUOTED: Final = 1000

_MESSAGE: Final = "m.room.message"
_STICKER: Final = "m.sticker"
_READABLE_TYPES: Final = frozenset({"m.text", "m.emote", "m.location", *FILE_TYPES})

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RoomDetails:
    """A room, as known when an event is read."""

    room_id: str
    name: str | None = None
    topic: str | None = None
    #: A room of two, or one that the account marks as direct.
    is_direct: bool = False
    #: Display names of members, by id.
    names: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, user_id: str) -> str:
        """Return a member's display name."""
        return short(self.names.get(user_id)) or local_part(user_id)


@dataclass(frozen=True, slots=True)
class InboundReader:
    """Reads events for one bot."""

    #: ``@name:server``.
    user_id: str
    needs_mention: bool = True
    max_file_bytes: int = 20 * 1024**2
    #: Names of commands, without the slash.
    commands: frozenset[str] = frozenset()

    def read(self, event: object, room: RoomDetails) -> Inbound | None:
        """Return the message in *event*, None if it has none for the agent: state, reactions,
        edits, deletions, notices of other bots, the account's own messages.

        Raises:
            UnreadablePayload: it does not match the specification, or is far too large.
        """
        event = record(event, "An event")
        if event.get("type") not in (_MESSAGE, _STICKER) or "state_key" in event:
            return None
        sender = event.get("sender")
        if not is_user_id(sender):
            raise UnreadablePayload("An event has no sender.")
        content = record(event.get("content"), "The content of an event")
        if sender == self.user_id or not content or edit_of(event) is not None:
            return None  # a deleted message has no content
        kind = _STICKER if event["type"] == _STICKER else content.get("msgtype")
        if not isinstance(kind, str):
            raise UnreadablePayload("A message has no type.")
        if kind not in _READABLE_TYPES and kind != _STICKER:
            return None
        return self._message(event, content, kind, sender, room)

    def _message(
        self, event: Record, content: Record, kind: str, sender: str, room: RoomDetails
    ) -> Inbound | None:
        event_id = event.get("event_id")
        if not is_event_id(event_id):
            raise UnreadablePayload("An event has no usable id.")
        addressee = BotNames(self.user_id, room.names.get(self.user_id), self.commands)
        fallback, written = split_fallback(content, _text_of(content, kind))
        command = addressee.as_command(addressee.without_name(written))
        if not room.is_direct and self.needs_mention:
            is_answer = fallback is not None and fallback.author == self.user_id
            if not (
                is_answer or command.startswith("/") or addressee.is_addressed(content, written)
            ):
                return None
        attachments, notes = self._files(content, kind)
        text = "\n".join(part for part in (command, *notes) if part)
        if not text and not attachments:
            return None
        if kind == "m.emote":
            text = f"* {room.name_of(sender)} {text}"
        thread_id, reply_to = _relations(content)
        quoted = "" if fallback is None else self.quotation(fallback, text, room)
        return Inbound(
            source=self._source(room, sender, event_id, thread_id),
            text=quoted + text,
            message_id=event_id,
            sent_at=_time(event.get("origin_server_ts")),
            attachments=attachments,
            reply_to=reply_to,
            extra={} if room.is_direct else {"is_group": True},
        )

    def with_quotation(self, inbound: Inbound, answered: object, room: RoomDetails) -> Inbound:
        """Return a message with a quote of the event that it answers; unchanged if that is not
        readable, or the bot's own.
        """
        event = answered if isinstance(answered, Mapping) else {}
        content, sender = event.get("content"), event.get("sender")
        if inbound.text.startswith(("/", "> ")) or not isinstance(content, Mapping):
            return inbound
        body = content.get("body")
        if not is_user_id(sender) or not isinstance(body, str):
            return inbound
        _, words = split_fallback(content, body)
        quoted = self.quotation(ReplyFallback(sender, words), inbound.text, room)
        return replace(inbound, text=quoted + inbound.text)

    def quotation(self, quoted: ReplyFallback, text: str, room: RoomDetails) -> str:
        """Return the quote before a reply; a reply to the bot needs none."""
        if quoted.author == self.user_id or text.startswith("/") or not quoted.text.strip():
            return ""
        cut = quoted.text[:_MAX_QUOTED] + ("…" if len(quoted.text) > _MAX_QUOTED else "")
        lines = f"{room.name_of(quoted.author)}: {cut}".splitlines()
        return "\n".join(f"> {line}" for line in lines) + "\n\n"

    def _source(
        self, room: RoomDetails, sender: str, event_id: str, thread_id: str | None
    ) -> SessionSource:
        name = room.name_of(sender)
        return SessionSource(
            platform=Platform.MATRIX,
            chat_id=room.room_id,
            chat_name=short(room.name) or (name if room.is_direct else None),
            chat_type="dm" if room.is_direct else "group",
            user_id=sender,
            user_name=name,
            thread_id=thread_id,
            chat_topic=short(room.topic),
            guild_id=server_of(self.user_id),
            message_id=event_id,
        )

    def _files(self, content: Record, kind: str) -> tuple[tuple[Attachment, ...], list[str]]:
        file_kind = "other" if kind == _STICKER else FILE_TYPES.get(kind)
        if file_kind is None:
            return (), []
        return within(self.max_file_bytes, [attachment_of(file_kind, content)])


def edit_of(event: Record) -> str | None:
    """Return the id of the event that *event* replaces, None if it is not an edit."""
    relation = _relation(event.get("content"))
    changed = relation.get("event_id") if relation.get("rel_type") == "m.replace" else None
    return changed if isinstance(changed, str) else None


def with_edits(events: Iterable[object]) -> list[object]:
    """Return events with the edits among them applied.

    A message that was edited before it was read has its new text. An edit of a message that was
    read before is ignored: it has been answered.
    """
    events = list(events)
    changes: dict[tuple[object, object], Record] = {}
    for event in events:
        if isinstance(event, Mapping) and (changed := edit_of(event)) is not None:
            new = event["content"].get("m.new_content")
            if isinstance(new, Mapping):
                changes[changed, event.get("sender")] = new
    return [_with_edit(event, changes) for event in events] if changes else events


def _with_edit(event: object, changes: Mapping[tuple[object, object], Record]) -> object:
    if not isinstance(event, Mapping) or not isinstance(event.get("event_id"), str):
        return event
    # Only the sender of a message can edit it.
    new = changes.get((event["event_id"], event.get("sender")))
    content = event.get("content")
    if new is None or not isinstance(content, Mapping) or not content:
        return event
    kept = {"m.relates_to": content["m.relates_to"]} if "m.relates_to" in content else {}
    return {**event, "content": {**new, **kept}}


def _text_of(content: Record, kind: str) -> str:
    body = content.get("body")
    if kind == _STICKER:
        return f"[Sticker: {short(body) or ''}]"
    if not isinstance(body, str):
        raise UnreadablePayload("The body of a message is not text.")
    if len(body) > MAX_TEXT:
        raise UnreadablePayload(f"The text has {len(body):,} characters.")
    if kind in FILE_TYPES:
        return caption_of(content)
    if kind == "m.location":
        return f"[Location: {short(content.get('geo_uri')) or ''} {short(body) or ''}]"
    return body


def _relations(content: Record) -> tuple[str | None, str | None]:
    """Return the thread of a message, and the event that it answers."""
    relation = _relation(content)
    thread: object = relation.get("event_id") if relation.get("rel_type") == "m.thread" else None
    if thread is not None and not is_event_id(thread):
        raise UnreadablePayload("A thread has no usable id.")
    answer = relation.get("m.in_reply_to")
    answered = answer.get("event_id") if isinstance(answer, Mapping) else None
    # For clients without threads, each message of a thread is a reply to the one before it.
    is_real = thread is None or relation.get("is_falling_back") is not True
    return thread, answered if is_real and is_event_id(answered) else None


def _relation(content: object) -> Record:
    relation = content.get("m.relates_to") if isinstance(content, Mapping) else None
    return relation if isinstance(relation, Mapping) else {}


def _time(value: object) -> float | None:
    is_time = type(value) is int and 0 <= value < 2**53
    return value / 1000 if is_time and isinstance(value, int) else None
