"""What is sent: the content of events, within the size that an event may have. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.matrix.formatting import readable, to_html
from hermes_sessions.gateway.platforms.matrix.identifiers import is_event_id

#: Bytes of one message's text. An event has at most 65,536 bytes, in which a change says the text
#: twice, JSON writes some signs with two bytes, and encryption makes four bytes of three.
TEXT_BYTES: Final = 10_000
#: What is larger is sent without markup, so that it fits also when it is encrypted.
_CONTENT_BYTES: Final = 45_000


def message_content(target: Target, markdown: str) -> dict[str, Any]:
    """Return the content of a message, in the thread of *target* and as an answer in groups."""
    relation = _relation(target)
    related = {"m.relates_to": relation} if relation else {}
    return _fitting(lambda with_markup: {**_words(markdown, with_markup=with_markup), **related})


def edit_content(message_id: str, markdown: str) -> dict[str, Any]:
    """Return the content that replaces a message."""

    def content(with_markup: bool) -> dict[str, Any]:
        new = _words(markdown, with_markup=with_markup)
        # For clients that do not know of changes.
        shown = {**new, "body": f"* {new['body']}"}
        if "formatted_body" in new:
            shown["formatted_body"] = f"* {new['formatted_body']}"
        relation = {"rel_type": "m.replace", "event_id": message_id}
        return {**shown, "m.new_content": new, "m.relates_to": relation}

    return _fitting(content)


def notice_content(text: str, answered: str) -> dict[str, Any]:
    """Return words about a message that was not understood; other bots leave notices alone."""
    return {
        "msgtype": "m.notice",
        "body": text,
        "m.mentions": {},
        "m.relates_to": {"m.in_reply_to": {"event_id": answered}},
    }


def transaction_id(salt: str, room_id: str, key: str) -> str:
    """Return the name under which the homeserver takes a message once.

    *salt* belongs to the store that made the key: another store begins to count anew.
    """
    named = f"{salt}\0{room_id}\0{key}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(named).hexdigest()[:40]


def _words(markdown: str, *, with_markup: bool) -> dict[str, Any]:
    text = readable(markdown)
    # Nobody is called by what happens to look like a name in the text, least of all everybody.
    words: dict[str, Any] = {"msgtype": "m.text", "body": text, "m.mentions": {}}
    html = to_html(text) if with_markup else None
    if html is not None:
        words |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return words


def _relation(target: Target) -> dict[str, Any]:
    answered = target.reply_to if is_event_id(target.reply_to) else None
    if is_event_id(target.thread_id):
        return {
            "rel_type": "m.thread",
            "event_id": target.thread_id,
            "is_falling_back": True,
            "m.in_reply_to": {"event_id": answered or target.thread_id},
        }
    if answered and target.extra.get("is_group"):
        return {"m.in_reply_to": {"event_id": answered}}
    return {}


def _fitting(content: Any) -> dict[str, Any]:
    with_markup: dict[str, Any] = content(True)
    if len(json.dumps(with_markup, ensure_ascii=False).encode()) <= _CONTENT_BYTES:
        return with_markup
    without: dict[str, Any] = content(False)
    return without
