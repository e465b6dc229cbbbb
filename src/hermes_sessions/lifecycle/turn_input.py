"""What of a mailbox becomes the next turn: pure rules.

1. What a turn had that did not finish is taken together again, before everything else, in the order
   that it had.
2. Going on after an interruption comes before what arrived meanwhile.
3. Consecutive plain messages of one sender are one turn. Two senders are never merged, and somebody
   who is not known might be two.
4. Everything else is a turn of its own.
5. What waits side by side and comes from one chat is in the order of its platform, where that has
   one (``order`` in the payload); otherwise as it came. Two gateways may have brought it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.codec import to_json
from hermes_sessions.storage.repositories.mailbox import Kind, MailboxItem


class TurnInput(NamedTuple):
    """What a turn answers: items that are taken together, as one message."""

    kind: Kind
    items: tuple[MailboxItem, ...]

    @property
    def item_ids(self) -> tuple[int, ...]:
        """Their numbers in the mailbox, in order."""
        return tuple(item.id for item in self.items)

    @property
    def sender(self) -> str | None:
        """Who sent them."""
        return self.items[0].sender

    @property
    def text(self) -> str:
        """Their texts, a line each."""
        return "\n".join(item.text for item in self.items if item.text)

    @property
    def media(self) -> list[Any]:
        """Their files, in order: what the payloads have under ``media``."""
        return [file for item in self.items for file in item.payload.get("media") or ()]

    @property
    def payloads(self) -> list[dict[str, Any]]:
        """What came with each of them."""
        return [item.payload for item in self.items]

    @property
    def is_retry(self) -> bool:
        """Whether a turn had them already and did not finish."""
        return self.items[0].turn_id is not None


def next_input(waiting: Sequence[MailboxItem]) -> TurnInput | None:
    """Return what the next turn takes of what waits, in order; None when nothing does."""
    if not waiting:
        return None
    tried = next((item for item in waiting if item.turn_id is not None), None)
    if tried is not None:
        return _input(
            sorted((item for item in waiting if item.turn_id == tried.turn_id), key=_place)
        )
    resume = next((item for item in waiting if item.kind == "resume"), None)
    if resume is not None:
        return _input([resume])
    waiting = in_platform_order(waiting)
    first = waiting[0]
    if first.kind != "message" or first.sender is None:
        return _input([first])
    return _input(
        takewhile(lambda item: (item.kind, item.sender) == ("message", first.sender), waiting)
    )


def in_platform_order(waiting: Sequence[MailboxItem]) -> list[MailboxItem]:
    """Return items, given as they came, with those side by side in their platform's order that come
    from one chat and have one.
    """
    ordered: list[MailboxItem] = []
    for (chat, _), side_by_side in groupby(waiting, key=_chat):
        some = list(side_by_side)
        ordered += some if chat is None else sorted(some, key=lambda item: item.payload["order"])
    return ordered


def _chat(item: MailboxItem) -> tuple[str | None, object]:
    """Return the chat in which an item has a place; None where it has none."""
    source, order = item.payload.get("source"), item.payload.get("order")
    if isinstance(order, float):
        is_placed = math.isfinite(order)
    else:
        is_placed = isinstance(order, int) and not isinstance(order, bool)
    if not is_placed or not isinstance(source, dict):
        return None, item.id
    return to_json([source.get("platform"), source.get("chat_id")]), None


def _place(item: MailboxItem) -> tuple[float, int]:
    """Return where an item was in the turn that had it; what was put into the turn later has no
    place, and comes after it.
    """
    return item.payload.get("place", math.inf), item.id


def _input(items: Iterable[MailboxItem]) -> TurnInput:
    taken = tuple(items)
    # A message that was put into a running turn shares its fate; the turn is what it began as.
    return TurnInput(taken[0].kind, taken)


def dedupe_mark(namespace: str, platform: str, chat_id: str, message_id: str | None) -> str | None:
    """Return what tells a message that is delivered again from a new one, whatever the ids contain;
    None for a message without an id.
    """
    if not message_id:
        return None
    parts = to_json([namespace, str(platform), chat_id, message_id])
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def sender_of(source: SessionSource) -> str | None:
    """Return who wrote, for the rule that two senders are never merged.

    In a private chat that is the chat, even where the platform names nobody.
    """
    if source.user_id_alt or source.user_id:
        return source.user_id_alt or source.user_id
    return (source.chat_id or None) if source.chat_type == "dm" else None
