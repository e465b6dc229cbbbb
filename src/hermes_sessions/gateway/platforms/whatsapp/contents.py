"""What somebody said on WhatsApp, in words and files. Pure.

What has no words, such as a place, is described in square brackets, so that the agent knows of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from hermes_sessions.gateway.events import Attachment
from hermes_sessions.gateway.platforms.payloads import record, short, text_of
from hermes_sessions.gateway.platforms.port import UnreadablePayload

#: WhatsApp's own is 4,096 for text; what is far above it is not from there.
MAX_TEXT: Final = 100_000
#: Cards and products that are named; the rest is only counted.
_MOST_NAMED: Final = 10

Record = Mapping[str, Any]
_Kind = Literal["photo", "audio", "video", "document", "other"]
_FILES: Final[Mapping[str, _Kind]] = {
    "image": "photo",
    "audio": "audio",
    "voice": "audio",
    "video": "video",
    "document": "document",
    "sticker": "other",
}
#: It becomes a part of an address.
MEDIA_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Content(NamedTuple):
    """What was said."""

    text: str
    attachments: tuple[Attachment, ...] = ()


def content_of(kind: str, message: Record) -> Content | None:
    """Return what a message of this kind says, None when that is nothing.

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
    # How large it is, Meta says only when it is asked.
    return Attachment(kind, reference, short(file.get("filename")), short(file.get("mime_type")))


def _text(body: Record) -> str:
    return _bounded(body.get("body"))


def _button(body: Record) -> str:
    return _bounded(body.get("text")) or _bounded(body.get("payload"))


def _interactive(body: Record) -> str:
    """Return what was chosen from what was offered."""
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
