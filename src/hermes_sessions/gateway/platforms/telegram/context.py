"""What a message on Telegram refers to: words of others, which the agent cannot see otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hermes_sessions.gateway.platforms.payloads import short

Record = Mapping[str, Any]

#: As much of a quoted message as makes clear what is meant.
_MAX_QUOTED: Final = 1000


def introduction(message: Record, text: str, bot_id: int) -> str:
    """Return what stands before the text of *message*: where it is from, and what it answers.

    An answer to the bot itself needs no quotation, unless somebody chose one. A command stays one,
    unless somebody else wrote it.
    """
    if origin := _mapping(message.get("forward_origin")):
        return f"[Forwarded from {_origin(origin) or 'somebody'}]\n"
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
    """Return what somebody is called."""
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
