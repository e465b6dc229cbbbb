"""Map Slack's events and slash commands to messages of the gateway. Pure; validates everything.

A mention in a channel arrives twice, as ``app_mention`` and as ``message``. Both have the same
channel and the same ``ts``, which is the id of the message, so the gateway accepts it once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.events import Attachment, Inbound
from hermes_sessions.gateway.platforms.markdown import rewrite
from hermes_sessions.gateway.platforms.payloads import (
    kind_of,
    left_out,
    record,
    short,
    size_of,
    text_of,
)
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.model.source import Platform, SessionSource

# Texts. Slack escapes ``&``, ``<`` and ``>``, and puts links and mentions in angle brackets. Links
# are written out; mentions stay as they are, so that the agent can repeat them.


_CONTROL: Final = re.compile(r"<([^<>\n]*)>")


_ENTITY: Final = re.compile(r"&(amp|lt|gt);")


_ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">"}
#: Separators between a mention and the text that follows it.
_MENTION_SEPARATORS: Final = " \t\n\u00a0,:"


_MENTION: Final = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")
#: Limits of forwarded messages: characters of each, and how many.
_MAX_QUOTED: Final = 4000


_MAX_QUOTES: Final = 10


def plain(raw: str) -> str:
    """Return a text of Slack as it was typed."""
    return rewrite(_CONTROL, raw, found=_control_text, rest=_unescaped)


def is_mentioned(raw: str, user_id: str) -> bool:
    """Return whether a text, as Slack sent it, mentions a user."""
    return any(mention[1] == user_id for mention in _MENTION.finditer(raw))


def mentions_other_first(raw: str, user_id: str) -> bool:
    """Return whether a text starts with a mention of another user, and so is for them."""
    mention = _MENTION.match(raw.lstrip())
    return mention is not None and mention[1] != user_id


def without_name(raw: str, user_id: str) -> str:
    """Return a text without a mention of *user_id* at its start."""
    begun = raw.lstrip()
    mention = _MENTION.match(begun)
    if mention is None or mention[1] != user_id:
        return raw
    return begun[mention.end() :].lstrip(_MENTION_SEPARATORS)


def forwarded_text(attachments: object) -> str:
    """Return forwarded messages as quotes; other attachments are previews of links in the text."""
    if not isinstance(attachments, list):
        return ""
    quoted = [_quotation(each) for each in attachments[:_MAX_QUOTES] if isinstance(each, Mapping)]
    return "\n\n".join(each for each in quoted if each)


def _quotation(attachment: Mapping[str, Any]) -> str:
    if not (attachment.get("is_share") or attachment.get("is_msg_unfurl")):
        return ""
    text, files = attachment.get("text"), attachment.get("files")
    text = text if isinstance(text, str) and text.strip() else ""
    words = plain(text[:_MAX_QUOTED]) + ("…" if len(text) > _MAX_QUOTED else "")
    # The app may not have access to these files, so that only their names are quoted.
    names = [
        f"[file: {short(file.get('name')) or 'without a name'}]"
        for file in (files[:_MAX_QUOTES] if isinstance(files, list) else ())
        if isinstance(file, Mapping)
    ]
    lines = [f"> {line}" for line in (*words.splitlines(), *names)]
    author = short(attachment.get("author_name")) or "an unknown user"
    return "\n".join((f"[Forwarded from {author}]", *lines)) if lines else ""


def _unescaped(text: str) -> str:
    return _ENTITY.sub(lambda entity: _ENTITIES[entity[1]], text)


def _control_text(control: re.Match[str]) -> str:
    inside = control[1]
    if inside[:1] in {"@", "#", "!"}:
        return control[0]
    address, _, label = (_unescaped(part) for part in inside.partition("|"))
    bare = address.removeprefix("mailto:").removeprefix("tel:")
    # Slack turns `example.org` into a link to http://example.org.
    if not label or label in {address, bare} or address in {f"http://{label}", f"https://{label}"}:
        return label or bare
    return f"{label} ({address})"


# Files, by reference.

#: It becomes part of a request.
FILE_ID: Final = re.compile(r"F[A-Z0-9]{1,31}")
#: Slack allows ten per message.
_MAX_FILES: Final = 50
#: Modes of files that were deleted or that the workspace's plan no longer shows.
_DELETED_MODES: Final = frozenset({"tombstone", "hidden_by_limit"})


class MessageFiles(NamedTuple):
    """The files of one message."""

    attachments: tuple[Attachment, ...]
    #: Notes for the agent about files that it cannot get.
    notes: tuple[str, ...]


def files_of(files: object, max_bytes: int) -> MessageFiles:
    """Return the files of a message, and notes about those over *max_bytes*.

    Raises:
        UnreadablePayload: they are not what Slack documents.
    """
    if files is None:
        return MessageFiles((), ())
    if not isinstance(files, list) or len(files) > _MAX_FILES:
        raise UnreadablePayload("event.files is not a list of files.")
    attachments: list[Attachment] = []
    notes: list[str] = []
    for each in files:
        file = record(each, "A file")
        attachment = _attachment(file)
        name = f" {attachment.name!r}" if attachment.name else ""
        mode = text_of(file.get("mode"), "A file's mode")
        if mode in _DELETED_MODES:
            notes.append(f"[A file{name} no longer exists.]")
        elif mode == "external" or file.get("is_external") is True:
            notes.append(f"[A file{name} is stored elsewhere: {file.get('url_private')!s:.1000}]")
        elif (attachment.size or 0) > max_bytes:
            notes.append(left_out(attachment, max_bytes))
        else:
            attachments.append(attachment)
    return MessageFiles(tuple(attachments), tuple(notes))


def _attachment(file: Mapping[str, Any]) -> Attachment:
    reference = file.get("id")
    if not isinstance(reference, str) or not FILE_ID.fullmatch(reference):
        raise UnreadablePayload("A file has no usable id.")
    mime_type = short(file.get("mimetype"))
    return Attachment(
        kind=kind_of(mime_type),
        reference=reference,
        name=short(file.get("name")),
        mime_type=mime_type,
        size=size_of(file.get("size")),
    )


Record = Mapping[str, Any]

#: Slack's own limit is 40,000; a far longer text is not from there.
MAX_TEXT: Final = 100_000
#: Subtypes of messages that users wrote. All others (edited, deleted, joined, …) need no reply: the
#: original message got one.
_USER_SUBTYPES: Final = frozenset({None, "file_share", "me_message", "thread_broadcast"})
#: Slack calls a private channel `group`.
_CHAT_TYPES: Final = {"im": "dm", "mpim": "group", "channel": "channel", "group": "channel"}
#: Values of `channel_name` in slash commands that are not the name of a channel.
_UNNAMED: Final = {"directmessage": "dm", "privategroup": "channel"}
_SLACKBOT: Final = "USLACKBOT"

_ID: Final = re.compile(r"[A-Z][A-Z0-9]{1,31}")
_TS: Final = re.compile(r"[0-9]{1,16}\.[0-9]{1,9}")
_TRIGGER: Final = re.compile(r"[!-~]{1,256}")


class SlackMessage(NamedTuple):
    """A message, and whether it is for the bot."""

    inbound: Inbound
    #: Whether it is for the bot in any case: a private message, a mention or a command. Otherwise
    #: it is only if the bot follows the thread.
    is_addressed: bool = True
    #: Whether Slack sent the type of the chat; otherwise a channel is assumed.
    is_kind_known: bool = True


@dataclass(frozen=True, slots=True)
class InboundReader:
    """Reads payloads for one bot."""

    #: The bot's user id, as in mentions.
    user_id: str
    team_id: str
    needs_mention: bool = True
    #: Whether a message in a channel opens a thread, which is then the conversation.
    opens_threads: bool = False
    max_file_bytes: int = 20 * 1024**2
    #: Names of the gateway's commands, without the slash.
    commands: frozenset[str] = field(default_factory=frozenset)

    def read(self, payload: object) -> SlackMessage | None:
        """Return the message in *payload*, None if it has none for the bot.

        Raises:
            UnreadablePayload: it is not what Slack documents, or far too large.
        """
        call = record(payload, "A payload")
        if "command" in call:
            return self._command(call)
        if call.get("type") != "event_callback" or not self._is_for_our_workspace(call):
            return None
        event = record(call.get("event"), "event")
        if text_of(event.get("type"), "event.type") not in {"message", "app_mention"}:
            return None
        return self._event(event)

    def _is_for_our_workspace(self, call: Record) -> bool:
        """Return whether a payload is for the workspace of the token: an app may be installed in
        several, and an organisation's event may name any of them.
        """
        if call.get("team_id") == self.team_id:
            return True
        installed = call.get("authorizations")
        bots = installed if isinstance(installed, list) else ()
        return any(isinstance(bot, Mapping) and self._is_bot(bot) for bot in bots)

    def _is_bot(self, installed: Record) -> bool:
        """Return whether an installation is this bot: user ids are unique only per workspace."""
        is_here = installed.get("team_id") in (None, self.team_id)
        return is_here and installed.get("user_id") == self.user_id

    # ── messages ──────────────────────────────────────────────────────────────────────────────

    def _event(self, event: Record) -> SlackMessage | None:
        if not self._is_from_user(event):
            return None
        raw = text_of(event.get("text"), "event.text") or ""
        if len(raw) > MAX_TEXT:
            raise UnreadablePayload(f"A text has {len(raw):,} characters; Slack sends 40,000.")
        chat_id = _id(event.get("channel"), "event.channel")
        kind = text_of(event.get("channel_type"), "event.channel_type")
        # Mentions have no channel type; ids of private chats start with D.
        chat_type = _CHAT_TYPES.get(kind or "", "dm" if chat_id.startswith("D") else "channel")
        is_addressed = chat_type == "dm" or self._is_addressed(event, raw)
        thread = _ts(event.get("thread_ts"), "event.thread_ts") if "thread_ts" in event else None
        ts = _ts(event.get("ts"), "event.ts")
        thread_id = thread if thread != ts else None
        if not is_addressed and (thread_id is None or mentions_other_first(raw, self.user_id)):
            return None
        inbound = self._message(event, raw, chat_id, chat_type, ts, thread_id)
        return None if inbound is None else SlackMessage(inbound, is_addressed, kind is not None)

    def _is_from_user(self, event: Record) -> bool:
        """Return whether a user wrote the message, and not a program or this bot."""
        if text_of(event.get("subtype"), "event.subtype") not in _USER_SUBTYPES or event.get(
            "hidden"
        ):
            return False
        if event.get("bot_id") or event.get("bot_profile"):
            return False
        return text_of(event.get("user"), "event.user") not in {self.user_id, _SLACKBOT}

    def _is_addressed(self, event: Record, raw: str) -> bool:
        if not self.needs_mention or event.get("type") == "app_mention":
            return True
        is_answer = "thread_ts" in event and event.get("parent_user_id") == self.user_id
        if is_answer and not mentions_other_first(raw, self.user_id):
            return True
        return is_mentioned(raw, self.user_id)

    def _message(
        self,
        event: Record,
        raw: str,
        chat_id: str,
        chat_type: str,
        ts: str,
        thread_id: str | None,
    ) -> Inbound | None:
        files = files_of(event.get("files"), self.max_file_bytes)
        words = plain(without_name(raw, self.user_id))
        quoted = forwarded_text(event.get("attachments"))
        text = "\n\n".join(part for part in (words, quoted, *files.notes) if part)
        if not text and not files.attachments:
            return None
        if thread_id is None and self.opens_threads and chat_type != "dm":
            thread_id = ts
        source = self._source(chat_id, chat_type, event.get("user"), ts, thread_id)
        return Inbound(
            source=source,
            text=text,
            message_id=ts,
            sent_at=float(ts),
            attachments=files.attachments,
            order=float(ts),
        )

    def _source(
        self, chat_id: str, chat_type: str, user: object, message_id: str, thread_id: str | None
    ) -> SessionSource:
        return SessionSource(
            platform=Platform.SLACK,
            chat_id=chat_id,
            chat_type=chat_type,
            user_id=_id(user, "event.user"),
            thread_id=thread_id,
            guild_id=self.team_id,
            message_id=message_id,
        )

    # ── slash commands ────────────────────────────────────────────────────────────────────────

    def _command(self, call: Record) -> SlackMessage | None:
        """Read ``/hermes TEXT``. Slack delivers only slash commands that the app has registered."""
        if call.get("team_id") != self.team_id:
            return None
        name = (text_of(call.get("command"), "command") or "").removeprefix("/").lower()
        raw = (text_of(call.get("text"), "text") or "").strip()
        trigger = text_of(call.get("trigger_id"), "trigger_id") or ""
        if len(raw) > MAX_TEXT or not _TRIGGER.fullmatch(trigger):
            raise UnreadablePayload("A command has no usable trigger_id, or is far too long.")
        text = (
            f"/{name} {plain(raw)}".rstrip() if name in self.commands else self._command_text(raw)
        )
        place = short(call.get("channel_name")) or ""
        chat_id = _id(call.get("channel_id"), "channel_id")
        named = "group" if place.startswith("mpdm-") else "channel"
        chat_type = "dm" if chat_id.startswith("D") else _UNNAMED.get(place, named)
        # A command is not a message and has no ts; its trigger id is unique.
        source = self._source(chat_id, chat_type, call.get("user_id"), f"slash:{trigger}", None)
        return SlackMessage(Inbound(source=source, text=text, message_id=source.message_id))

    def _command_text(self, raw: str) -> str:
        """Return the text after ``/hermes``: a command without its slash, or a message."""
        word = raw.partition(" ")[0].lower()
        if not raw:
            return "/help"
        return f"/{plain(raw)}" if word in self.commands else plain(raw)


def _id(value: object, what: str) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise UnreadablePayload(f"{what} is not a Slack id.")
    return value


def _ts(value: object, what: str) -> str:
    if not isinstance(value, str) or not _TS.fullmatch(value):
        raise UnreadablePayload(f"{what} is not a Slack timestamp.")
    return value
