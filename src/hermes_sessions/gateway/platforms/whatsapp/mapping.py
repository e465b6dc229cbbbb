"""Map Meta's webhook payloads to messages of the gateway. Pure; validates everything.

A request has entries, an entry has changes, a change has messages and statuses. An unexpected part
is skipped alone.

A user has a phone number (``wa_id``), an id that stays the same when the number changes or is
hidden (``user_id``), or both. Both are passed on, so that the store knows that they belong
together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from hermes_sessions.gateway.events import Attachment, Inbound
from hermes_sessions.gateway.platforms.payloads import record, short, text_of
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.model.lane import normalise_whatsapp
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.logs import where

# Contents. Those without text, such as a location, are described in square brackets, so that the
# agent knows of them.

#: WhatsApp's own limit for text is 4,096; a far longer text is not from there.
MAX_TEXT: Final = 100_000
#: How many contacts and products are listed; the rest are counted.
_MOST_NAMED: Final = 10


_Kind = Literal["photo", "audio", "video", "document", "other"]


_FILES: Final[Mapping[str, _Kind]] = {
    "image": "photo",
    "audio": "audio",
    "voice": "audio",
    "video": "video",
    "document": "document",
    "sticker": "other",
}
#: It becomes part of a URL.
MEDIA_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Content(NamedTuple):
    """The text and files of a message."""

    text: str
    attachments: tuple[Attachment, ...] = ()


def content_of(kind: str, message: Record) -> Content | None:
    """Return the content of a message of this type, None if it has none.

    Raises:
        UnreadablePayload: it is not what Meta documents, or far too large.
    """
    body = message.get(kind)
    if kind in _FILES:
        file = record(body, kind)
        content = Content(_bounded(file.get("caption")), (_attachment(_FILES[kind], file),))
    elif kind == "contacts":
        content = Content(_cards(body))
    elif kind in _WORDS:
        content = Content(_WORDS[kind](record(body, kind)))
    else:  # of a later version of the API
        return None
    if not content.text and not content.attachments:
        return None
    context = message.get("context")
    is_forwarded = isinstance(context, Mapping) and (
        context.get("forwarded") is True or context.get("frequently_forwarded") is True
    )
    return content._replace(text=f"[Forwarded]\n{content.text}") if is_forwarded else content


def _attachment(kind: _Kind, file: Record) -> Attachment:
    reference = text_of(file.get("id"), "A file's id") or ""
    if not MEDIA_ID.fullmatch(reference):
        raise UnreadablePayload("A file has no usable id.")
    # Meta tells the size only on request.
    return Attachment(kind, reference, short(file.get("filename")), short(file.get("mime_type")))


def _text(body: Record) -> str:
    return _bounded(body.get("body"))


def _button(body: Record) -> str:
    return _bounded(body.get("text")) or _bounded(body.get("payload"))


def _interactive(body: Record) -> str:
    """Return the selected option."""
    for name in ("button_reply", "list_reply"):
        if isinstance(chosen := body.get(name), Mapping):
            return _bounded(chosen.get("title")) or _bounded(chosen.get("id"))
    if isinstance(form := body.get("nfm_reply"), Mapping):
        filled_in = _bounded(form.get("response_json")) or _bounded(form.get("body"))
        return f"[Form: {filled_in}]" if filled_in else ""
    return ""


def _location(body: Record) -> str:
    place = f"{body.get('latitude')!s:.32}, {body.get('longitude')!s:.32}"
    names = (short(body.get("name")), short(body.get("address")))
    return f"[Location: {', '.join(part for part in (place, *names) if part)}]"


def _order(body: Record) -> str:
    products = body.get("product_items")
    lines = [
        f"{short(str(each.get('product_retailer_id')))} x {short(str(each.get('quantity')))}"
        for each in (products if isinstance(products, list) else [])
        if isinstance(each, Mapping)
    ]
    said = _bounded(body.get("text"))
    order = f"[Order: {_enumerated(lines)}]" if lines else ""
    return "\n".join(part for part in (said, order) if part)


def _cards(body: object) -> str:
    if not isinstance(body, list):
        raise UnreadablePayload("contacts is not a list.")
    cards = [_card(card) for card in body if isinstance(card, Mapping)]
    return f"[Contact: {_enumerated(cards)}]" if cards else ""


def _card(card: Record) -> str:
    name, phones = card.get("name"), card.get("phones")
    called = short(name.get("formatted_name")) if isinstance(name, Mapping) else None
    numbers = [
        short(phone.get("phone")) or short(phone.get("wa_id"))
        for phone in (phones if isinstance(phones, list) else [])
        if isinstance(phone, Mapping)
    ]
    return " ".join(part for part in (called, *numbers[:_MOST_NAMED]) if part) or "without a name"


def _enumerated(names: list[str]) -> str:
    rest = len(names) - _MOST_NAMED
    return "; ".join(names[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _bounded(value: object) -> str:
    text = text_of(value, "What was written") or ""
    if len(text) > MAX_TEXT:
        raise UnreadablePayload(f"The text has {len(text):,} characters; WhatsApp sends 4,096.")
    return text


_WORDS: Final = {
    "text": _text,
    "button": _button,
    "interactive": _interactive,
    "location": _location,
    "order": _order,
}


Record = Mapping[str, Any]

#: The subscription for messages and statuses.
_FIELD: Final = "messages"
_ACCOUNT: Final = "whatsapp_business_account"
#: Meta redelivers a message for seven days. An older one is a replay.
OLDEST_SECONDS: Final = 8 * 86400
_ID: Final = re.compile(r"[!-~]{1,512}")
#: Message types that need no reply.
_SILENT: Final = frozenset({"reaction", "system", "unsupported", "request_welcome", "ephemeral"})


class DeliveryStatus(NamedTuple):
    """The status of a sent message."""

    message_id: str
    #: ``sent``, ``delivered``, ``read``, ``played`` or ``failed``.
    status: str
    #: The key under which it was sent, if Meta returns it.
    key: str | None = None
    #: Why it failed: Meta's code and description.
    code: int | None = None
    details: str | None = None


class WebhookBatch(NamedTuple):
    """Everything in one request, in order."""

    messages: tuple[Inbound, ...]
    statuses: tuple[DeliveryStatus, ...]
    #: Why parts of it were skipped.
    problems: tuple[UnreadablePayload, ...]


@dataclass(frozen=True, slots=True)
class InboundReader:
    """Reads the requests for one number."""

    phone_number_id: str
    #: The business number, in digits: its own messages are ignored.
    own_number: str = ""

    def read(self, payload: object, *, now: float) -> WebhookBatch:
        """Return the contents of a request's body; *now* is in seconds since the epoch."""
        messages: list[Inbound] = []
        statuses: list[DeliveryStatus] = []
        problems: list[UnreadablePayload] = []
        try:
            values = list(self._values(payload, problems))
        except UnreadablePayload as problem:
            return WebhookBatch((), (), (problem,))
        for value in values:
            for item in _items(value, "messages", problems):
                with _skipped_alone(problems):
                    inbound = self._message(record(item, "A message"), value, now)
                    messages += [inbound] if inbound is not None else []
            for item in _items(value, "statuses", problems):
                with _skipped_alone(problems):
                    statuses.append(_status(record(item, "A status")))
        return WebhookBatch(tuple(messages), tuple(statuses), tuple(problems))

    def _values(self, payload: object, problems: list[UnreadablePayload]) -> Iterator[Record]:
        """Yield the changes of this number; an app may have others."""
        call = record(payload, "A call")
        if call.get("object") != _ACCOUNT:
            raise UnreadablePayload("A request is not about WhatsApp.")
        for entry in _items(call, "entry", problems):
            for change in _items(entry, "changes", problems):
                if not isinstance(change, Mapping) or change.get("field") != _FIELD:
                    continue
                value = change.get("value")
                metadata = value.get("metadata") if isinstance(value, Mapping) else None
                if not isinstance(value, Mapping) or not isinstance(metadata, Mapping):
                    problems.append(UnreadablePayload("A change has no phone number."))
                elif str(metadata.get("phone_number_id")) == self.phone_number_id:
                    yield value

    def _message(self, message: Record, value: Record, now: float) -> Inbound | None:
        kind = text_of(message.get("type"), "type")
        if kind is None or kind in _SILENT:
            return None
        message_id = text_of(message.get("id"), "id") or ""
        if not _ID.fullmatch(message_id):
            raise UnreadablePayload("A message has no usable id.")
        sent_at = _time(message.get("timestamp"))
        if sent_at is None or sent_at < now - OLDEST_SECONDS:
            raise UnreadablePayload("A message is older than Meta would redeliver.")
        person = _person(message, value)
        if person.number and person.number == self.own_number:
            return None
        content = content_of(kind, message)
        if content is None:
            return None
        context = message.get("context")
        answered = context.get("id") if isinstance(context, Mapping) else None
        return Inbound(
            source=_source(message, person, message_id),
            text=content.text,
            message_id=message_id,
            sent_at=sent_at,
            attachments=content.attachments,
            reply_to=answered if isinstance(answered, str) and _ID.fullmatch(answered) else None,
            order=sent_at,
        )


@contextmanager
def _skipped_alone(problems: list[UnreadablePayload]) -> Iterator[None]:
    """Record why an item is unreadable, for unexpected errors, too: a retry would fail in the same
    way and hold up the rest of the request.
    """
    try:
        yield
    except UnreadablePayload as problem:
        problems.append(problem)
    except Exception as error:  # noqa: BLE001 - it is noted, with where it was
        problems.append(UnreadablePayload(f"parsing failed: {where(error)}"))


class _Person(NamedTuple):
    number: str | None
    lasting_id: str | None
    name: str | None

    @property
    def id(self) -> str:
        return self.number or self.lasting_id or ""

    @property
    def other_id(self) -> str | None:
        return self.lasting_id if self.number else None


def _person(message: Record, value: Record) -> _Person:
    """Return the sender of a message, with details from the contacts."""
    number, lasting_id = _identifier(message.get("from")), _identifier(message.get("from_user_id"))
    if not number and not lasting_id:
        raise UnreadablePayload("A message has no sender.")
    contacts = value.get("contacts")
    for contact in contacts if isinstance(contacts, list) else ():
        if not isinstance(contact, Mapping):
            continue
        known = _identifier(contact.get("wa_id")), _identifier(contact.get("user_id"))
        if (number and known[0] == number) or (lasting_id and known[1] == lasting_id):
            profile = contact.get("profile")
            profile = profile if isinstance(profile, Mapping) else {}
            name = short(profile.get("name")) or short(profile.get("username"))
            return _Person(number or known[0], lasting_id or known[1], name)
    return _Person(number, lasting_id, None)


def _source(message: Record, person: _Person, message_id: str) -> SessionSource:
    group_id = text_of(message.get("group_id"), "group_id")
    if group_id is not None and not _ID.fullmatch(group_id):
        raise UnreadablePayload("A group has no usable id.")
    return SessionSource(
        platform=Platform.WHATSAPP,
        chat_id=group_id or person.id,
        chat_id_alt=None if group_id else person.other_id,
        chat_name=None if group_id else person.name,
        chat_type="group" if group_id else "dm",
        user_id=person.id,
        user_id_alt=person.other_id,
        user_name=person.name,
        message_id=message_id,
    )


def _identifier(value: object) -> str | None:
    """Return an id without plus sign, device and domain."""
    plain = normalise_whatsapp(value) if isinstance(value, str) and len(value) <= 512 else ""
    return plain if _ID.fullmatch(plain) else None


def _status(status: Record) -> DeliveryStatus:
    message_id = text_of(status.get("id"), "id") or ""
    word = text_of(status.get("status"), "status") or ""
    if not _ID.fullmatch(message_id) or not _ID.fullmatch(word):
        raise UnreadablePayload("A status has no message id or no status.")
    errors = status.get("errors")
    error = errors[0] if isinstance(errors, list) and errors else None
    error = error if isinstance(error, Mapping) else {}
    code, data = error.get("code"), error.get("error_data")
    details = data.get("details") if isinstance(data, Mapping) else None
    return DeliveryStatus(
        message_id,
        word[:32],
        short(status.get("biz_opaque_callback_data")),
        code if isinstance(code, int) else None,
        short(details) or short(error.get("title")),
    )


def _items(owner: object, name: str, problems: list[UnreadablePayload]) -> Sequence[object]:
    """Return the items of a list, none if it is missing; anything but a list is a problem."""
    items = owner.get(name) if isinstance(owner, Mapping) else ()
    if items is None or isinstance(items, (list, tuple)):
        return items or ()
    problems.append(UnreadablePayload(f"{name} is not a list."))
    return ()


def _time(value: object) -> float | None:
    """Return a time, which Meta sends as text."""
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
