"""Events of Matrix as messages of the gateway. Pure, and trusting nothing.

An event comes as parsed JSON, decrypted where it was encrypted, not as an object of the SDK, so
that one that nobody foresaw is skipped alone.
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

# Whether a message in a room is for the bot, and what it says besides the bot's name. Pure.

#: What clients without a better way put before an answer: lines of the message that it answers.
_FALLBACK: Final = re.compile(r"> (?:\* )?<(@[^>\s]+)> ?([^\n]*(?:\n>[^\n]*)*)\n\n?")


_BANG: Final = re.compile(r"!([A-Za-z][A-Za-z_-]*)(?=\s|$)")


@dataclass(frozen=True, slots=True)
class ReplyFallback:
    """The words that an answer repeats."""

    author: str
    text: str


@dataclass(frozen=True, slots=True)
class BotNames:
    """The bot, as people call it."""

    user_id: str
    #: What the room shows for it.
    display_name: str | None = None
    #: Names of commands, which may also be written with an exclamation mark: clients keep what
    #: begins with a slash for themselves.
    commands: frozenset[str] = frozenset()

    def is_meant(self, content: Record, text: str) -> bool:
        """Tell whether a message mentions the bot, or is a command; *text* is all that it says."""
        mentions = content.get("m.mentions")
        if isinstance(mentions, Mapping):
            named = mentions.get("user_ids")
            if isinstance(named, list) and self.user_id in named:
                return True
        if text.startswith("/") or self.user_id in text or self._opening().match(text):
            return True
        markup = content.get("formatted_body")
        if not isinstance(markup, str):
            return False
        links = (self.user_id, quote(self.user_id, safe="@:"), quote(self.user_id, safe=""))
        return any(f"matrix.to/#/{link}" in markup for link in links)

    def without_name(self, text: str) -> str:
        """Return *text* without the bot's name at its beginning."""
        found = self._opening().match(text)
        return text[found.end() :] if found else text

    def as_command(self, text: str) -> str:
        """Return ``!new`` as ``/new``, if there is such a command; anything else as it is."""
        found = _BANG.match(text)
        if found and found[1].lower() in self.commands:
            return f"/{text[1:]}"
        return text

    def _opening(self) -> re.Pattern[str]:
        whole, short = re.escape(self.user_id), re.escape(local_part(self.user_id))
        shown = f"|{re.escape(self.display_name)}" if self.display_name else ""
        # A name without a sign before it must be followed by one: "Hermes is a god" is no address.
        # After a short name with one, a colon may be a part of the id of somebody else.
        opening = rf"(?:{whole}(?:[,:]|(?=\s|$))|@{short}[,:]?(?=\s|$)|(?:{short}{shown})[,:])\s*"
        return re.compile(opening, re.IGNORECASE)


def split_fallback(content: Record, text: str) -> tuple[ReplyFallback | None, str]:
    """Return what an answer repeats, and what it says itself."""
    relation = content.get("m.relates_to")
    if not isinstance(relation, Mapping) or "m.in_reply_to" not in relation:
        return None, text
    found = _FALLBACK.match(text)
    if found is None:
        return None, text
    lines = found[2].split("\n")
    quoted = "\n".join([lines[0], *(re.sub(r"^> ?", "", line) for line in lines[1:])])
    return ReplyFallback(found[1], quoted), text[found.end() :]


#: An event has at most 65,536 bytes; what is above it is not from there.
MAX_TEXT: Final = 100_000
#: As much of a quoted message as makes clear what is meant.
_MAX_QUOTED: Final = 1000

_MESSAGE: Final = "m.room.message"
_STICKER: Final = "m.sticker"
_TEXTS: Final = frozenset({"m.text", "m.emote", "m.location", *FILE_TYPES})

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RoomView:
    """What is known of a room when an event of it is read."""

    room_id: str
    name: str | None = None
    topic: str | None = None
    #: A conversation of two, or one that the account calls direct.
    is_direct: bool = False
    #: What the room shows for its members, by their ids.
    names: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, user_id: str) -> str:
        """Return what somebody is called here."""
        return short(self.names.get(user_id)) or local_part(user_id)


@dataclass(frozen=True, slots=True)
class InboundReader:
    """How events are read: who the bot is, and what it takes."""

    #: ``@name:server``.
    user_id: str
    needs_mention: bool = True
    max_file_bytes: int = 20 * 1024**2
    #: Names of commands, without the slash.
    commands: frozenset[str] = frozenset()

    def read(self, event: object, room: RoomView) -> Inbound | None:
        """Return the message in *event*, None when there is none for the agent: state, reactions,
        edits, deletions, notices of other bots, what the account wrote itself.

        Raises:
            UnreadablePayload: it is not what the specification says, or far too large.
        """
        event = record(event, "An event")
        if event.get("type") not in (_MESSAGE, _STICKER) or "state_key" in event:
            return None
        sender = event.get("sender")
        if not is_user_id(sender):
            raise UnreadablePayload("It is not known who sent an event.")
        content = record(event.get("content"), "The content of an event")
        if sender == self.user_id or not content or edit_of(event) is not None:
            return None  # what was deleted has no content any more
        kind = _STICKER if event["type"] == _STICKER else content.get("msgtype")
        if not isinstance(kind, str):
            raise UnreadablePayload("A message does not say what kind it is.")
        if kind not in _TEXTS and kind != _STICKER:
            return None
        return self._message(event, content, kind, sender, room)

    def _message(
        self, event: Record, content: Record, kind: str, sender: str, room: RoomView
    ) -> Inbound | None:
        event_id = event.get("event_id")
        if not is_event_id(event_id):
            raise UnreadablePayload("An event has no usable id.")
        addressee = BotNames(self.user_id, room.names.get(self.user_id), self.commands)
        fallback, written = split_fallback(content, _written(content, kind))
        command = addressee.as_command(addressee.without_name(written))
        if not room.is_direct and self.needs_mention:
            is_answer = fallback is not None and fallback.author == self.user_id
            if not (is_answer or command.startswith("/") or addressee.is_meant(content, written)):
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

    def with_quotation(self, inbound: Inbound, answered: object, room: RoomView) -> Inbound:
        """Return a message with the words of the event that it answers before its own; as it is
        where those cannot be read, or are the bot's.
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

    def quotation(self, quoted: ReplyFallback, text: str, room: RoomView) -> str:
        """Return what stands before an answer; one to the bot needs no reminder."""
        if quoted.author == self.user_id or text.startswith("/") or not quoted.text.strip():
            return ""
        cut = quoted.text[:_MAX_QUOTED] + ("…" if len(quoted.text) > _MAX_QUOTED else "")
        lines = f"{room.name_of(quoted.author)}: {cut}".splitlines()
        return "\n".join(f"> {line}" for line in lines) + "\n\n"

    def _source(
        self, room: RoomView, sender: str, event_id: str, thread_id: str | None
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
    """Return the id of the event that *event* replaces, None when it is no edit."""
    relation = _relation(event.get("content"))
    changed = relation.get("event_id") if relation.get("rel_type") == "m.replace" else None
    return changed if isinstance(changed, str) else None


def with_edits(events: Iterable[object]) -> list[object]:
    """Return events as they read after those among them that change others.

    What was changed before anybody read it is read as it is now. A change of something that was
    read already is not: an answer was given to that.
    """
    events = list(events)
    changes: dict[tuple[object, object], Record] = {}
    for event in events:
        if isinstance(event, Mapping) and (changed := edit_of(event)) is not None:
            new = event["content"].get("m.new_content")
            if isinstance(new, Mapping):
                changes[changed, event.get("sender")] = new
    return [_changed(event, changes) for event in events] if changes else events


def _changed(event: object, changes: Mapping[tuple[object, object], Record]) -> object:
    if not isinstance(event, Mapping) or not isinstance(event.get("event_id"), str):
        return event
    # Only whoever wrote something can change it.
    new = changes.get((event["event_id"], event.get("sender")))
    content = event.get("content")
    if new is None or not isinstance(content, Mapping) or not content:
        return event
    kept = {"m.relates_to": content["m.relates_to"]} if "m.relates_to" in content else {}
    return {**event, "content": {**new, **kept}}


def _written(content: Record, kind: str) -> str:
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
    """Return the thread of a message, and the one that it answers."""
    relation = _relation(content)
    thread: object = relation.get("event_id") if relation.get("rel_type") == "m.thread" else None
    if thread is not None and not is_event_id(thread):
        raise UnreadablePayload("A thread has no usable id.")
    answer = relation.get("m.in_reply_to")
    answered = answer.get("event_id") if isinstance(answer, Mapping) else None
    # For clients without threads, everything in a thread seems to answer the one before it.
    is_real = thread is None or relation.get("is_falling_back") is not True
    return thread, answered if is_real and is_event_id(answered) else None


def _relation(content: object) -> Record:
    relation = content.get("m.relates_to") if isinstance(content, Mapping) else None
    return relation if isinstance(relation, Mapping) else {}


def _time(value: object) -> float | None:
    is_time = type(value) is int and 0 <= value < 2**53
    return value / 1000 if is_time and isinstance(value, int) else None
