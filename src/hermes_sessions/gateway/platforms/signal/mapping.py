"""Map signal-cli's notifications to messages of the gateway. Pure; validates everything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.events import Attachment, Inbound
from hermes_sessions.gateway.platforms.payloads import kind_of, record, short, size_of, within
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.gateway.platforms.signal.identifiers import (
    GROUP_PREFIX,
    MessageRef,
    group_id,
    is_timestamp,
    person_id,
)
from hermes_sessions.gateway.platforms.signal.long_texts import BEGINNING, is_long_text
from hermes_sessions.model.source import Platform, SessionSource

#: Signal's own limit is 64 KiB; a far longer text is not from there.
MAX_TEXT: Final = 100_000
#: Kept of a message in a group, to be quoted in the reply.
MAX_QUOTE: Final = 200

_MAX_QUOTED: Final = 1000
_MAX_FILES: Final = 100
#: Stands for a mention in a text.
_MENTION: Final = "\ufffc"
_REFERENCE: Final = re.compile(r"[A-Za-z0-9_=+-][A-Za-z0-9._=+-]{0,255}")

#: A data message with one of these is about another message or about the group.
_NO_TEXT: Final = ("reaction", "remoteDelete", "pollVote", "pollTerminate")

Record = Mapping[str, Any]


class Sender(NamedTuple):
    """The sender."""

    number: str | None
    uuid: str | None
    name: str | None

    @property
    def stable(self) -> str:
        """The id that does not change."""
        return self.uuid or self.number or ""


@dataclass(frozen=True, slots=True)
class InboundReader:
    """Reads notifications for one account."""

    #: The account's number.
    account: str
    needs_mention: bool = True
    max_file_bytes: int = 20 * 1024**2

    def read(self, params: object) -> Inbound | None:
        """Return the message in the params of a ``receive`` notification, None if it has none for
        the agent: receipts, typing, edits, reactions, messages from the account's other devices.

        Raises:
            UnreadablePayload: it is not what signal-cli documents, far too large, for another
                account, or could not be decrypted.
        """
        received = record(params, "params")
        if "subscription" in received:
            received = record(received.get("result"), "params.result")
        account = received.get("account")
        if account is not None and account != self.account:
            raise UnreadablePayload("It is not for the account in platforms.signal.account.")
        if isinstance(problem := received.get("exception"), Mapping):
            kind = str(problem.get("type"))[:80]
            raise UnreadablePayload(f"signal-cli could not read it: {kind}.")
        envelope = record(received.get("envelope"), "envelope")
        message = envelope.get("dataMessage")
        if message is None:
            return None
        message = record(message, "dataMessage")
        sender = _sender(envelope)
        if sender.number == self.account or any(message.get(each) for each in _NO_TEXT):
            return None
        return self._message(envelope, message, sender)

    def _message(self, envelope: Record, message: Record, sender: Sender) -> Inbound | None:
        text = _written(message)
        group = message.get("groupInfo")
        group = None if group is None else record(group, "groupInfo")
        if group is not None and group.get("type") == "UPDATE":
            return None
        quote = message.get("quote")
        quote = quote if isinstance(quote, Mapping) else None
        written, is_mentioned = self._without_mentions(text, message.get("mentions"))
        if group is not None and self.needs_mention:
            is_answer = quote is not None and self._is_own(quote, "author")
            if not (is_mentioned or is_answer or written.startswith("/")):
                return None
        attachments, notes = self._files(message)
        extra: dict[str, Any] = {"quote": written.strip()[:MAX_QUOTE]} if group is not None else {}
        others = (*_described(message), *notes)
        if any(map(is_long_text, attachments)):
            extra[BEGINNING] = len(text)
            parts = (*others, written)  # the next prefix goes after the first
        else:
            parts = (written.strip() if is_mentioned else written, *others)
        text = "\n".join(part for part in parts if part)
        if not text and not attachments:
            return None
        timestamp = message.get("timestamp", envelope.get("timestamp"))
        if not is_timestamp(timestamp):
            raise UnreadablePayload("The message has no timestamp.")
        name = MessageRef(timestamp, sender.stable).render()
        return Inbound(
            source=_source(group, sender, name),
            text=self._quotation(quote, text) + text,
            message_id=name,
            sent_at=timestamp / 1000,
            attachments=attachments,
            reply_to=_answered(quote),
            extra=extra,
            # Clocks of different users do not tell which message was first.
            order=timestamp if group is None else None,
        )

    def _is_own(self, record: Record, what: str) -> bool:
        return self.account in (record.get(what), record.get(f"{what}Number"))

    def _without_mentions(self, text: str, mentions: object) -> tuple[str, bool]:
        """Return the text with names for mentions and without mentions of the account, and whether
        it had one. Positions are in UTF-16 units.
        """
        if not isinstance(mentions, list):
            return text, False
        units = text.encode("utf-16-le", "surrogatepass")
        is_mentioned = False
        spans = [each for each in map(_mention_span, mentions[:_MAX_FILES]) if each is not None]
        for start, end, mention in sorted(spans, key=lambda each: each[0], reverse=True):
            if units[start:end].decode("utf-16-le", "replace") != _MENTION:
                continue
            is_own = mention.get("number") == self.account
            is_mentioned |= is_own
            name = "" if is_own else f"@{short(mention.get('name')) or 'unknown'}"
            after = units[end:]
            if is_own and after.startswith(" ".encode("utf-16-le")):
                after = after[2:]
            units = units[:start] + name.encode("utf-16-le", "surrogatepass") + after
        shown = units.decode("utf-16-le", "surrogatepass")
        return (shown.lstrip() if is_mentioned else shown), is_mentioned

    def _quotation(self, quote: Record | None, text: str) -> str:
        """Return the quote before the text; a reply to the account needs none."""
        if quote is None or text.startswith("/") or self._is_own(quote, "author"):
            return ""
        quoted = quote.get("text")
        if not isinstance(quoted, str) or not quoted.strip():
            return ""
        cut = quoted if len(quoted) <= _MAX_QUOTED else f"{quoted[:_MAX_QUOTED]}…"
        return "\n".join(f"> {line}" for line in cut.splitlines()) + "\n\n"

    def _files(self, message: Record) -> tuple[tuple[Attachment, ...], list[str]]:
        given = message.get("attachments") or []
        if not isinstance(given, Sequence) or isinstance(given, str) or len(given) > _MAX_FILES:
            raise UnreadablePayload("dataMessage.attachments is not a list of files.")
        if given and message.get("viewOnce"):
            return (), ["[A view-once file was skipped.]"]
        files = [_attachment(record(each, "an attachment")) for each in given]
        kept, notes = within(
            self.max_file_bytes, [each for each in files if not is_long_text(each)]
        )
        return (*kept, *filter(is_long_text, files)), notes


def _source(group: Record | None, sender: Sender, message_id: str) -> SessionSource:
    if group is None:
        # By the id that does not change: a number may be changed or hidden.
        chat_id, alternative = sender.stable, sender.number
        name = sender.name
    else:
        canonical = group_id(group.get("groupId"))
        if canonical is None:
            raise UnreadablePayload("groupInfo.groupId is not the id of a group.")
        chat_id, alternative = canonical, GROUP_PREFIX + canonical
        name = short(group.get("groupName"))
    return SessionSource(
        platform=Platform.SIGNAL,
        chat_id=chat_id,
        chat_id_alt=alternative if alternative != chat_id else None,
        chat_name=name,
        chat_type="dm" if group is None else "group",
        user_id=sender.number or sender.uuid,
        user_id_alt=sender.uuid,
        user_name=sender.name,
        message_id=message_id,
    )


def _sender(envelope: Record) -> Sender:
    source = person_id(envelope.get("source"))
    number = person_id(envelope.get("sourceNumber"))
    uuid = person_id(envelope.get("sourceUuid"))
    if source is not None and source.startswith("+"):
        number = number or source
    else:
        uuid = uuid or source
    if number is None and uuid is None:
        raise UnreadablePayload("It has no sender.")
    return Sender(number, uuid, short(envelope.get("sourceName")))


def _written(message: Record) -> str:
    text = message.get("message")
    if text is None:
        return ""
    if not isinstance(text, str):
        raise UnreadablePayload("dataMessage.message is not text.")
    if len(text) > MAX_TEXT:
        raise UnreadablePayload(f"The text has {len(text):,} characters.")
    return text


def _described(message: Record) -> list[str]:
    """Return a description of content without text: a sticker, contacts."""
    lines = ["[A sticker]"] if isinstance(message.get("sticker"), Mapping) else []
    contacts = message.get("contacts")
    if isinstance(contacts, list):
        lines += [_contact(each) for each in contacts[:_MAX_FILES] if isinstance(each, Mapping)]
    return lines


def _contact(contact: Record) -> str:
    name, phones = contact.get("name"), contact.get("phone")
    shown = short(name.get("display")) if isinstance(name, Mapping) else None
    numbers = [
        short(phone.get("value"))
        for phone in (phones[:10] if isinstance(phones, list) else ())
        if isinstance(phone, Mapping)
    ]
    return f"[Contact: {' '.join(part for part in (shown, *numbers) if part)}]"


def _answered(quote: Record | None) -> str | None:
    if quote is None or not is_timestamp(quote.get("id")):
        return None
    author = person_id(quote.get("authorUuid")) or person_id(quote.get("author"))
    return MessageRef(quote["id"], author).render()


def _attachment(file: Record) -> Attachment:
    reference = file.get("id")
    if not isinstance(reference, str) or not _REFERENCE.fullmatch(reference):
        raise UnreadablePayload("An attachment has no usable id.")
    mime_type = short(file.get("contentType"))
    return Attachment(
        kind=kind_of(mime_type),
        reference=reference,
        name=short(file.get("filename")),
        mime_type=mime_type,
        size=size_of(file.get("size")) or None,
    )


def _mention_span(mention: object) -> tuple[int, int, Record] | None:
    """Return the position of a mention, in bytes of UTF-16."""
    if not isinstance(mention, Mapping):
        return None
    start, length = mention.get("start"), mention.get("length")
    if type(start) is not int or type(length) is not int or start < 0 or length != 1:
        return None
    return start * 2, (start + length) * 2, mention
