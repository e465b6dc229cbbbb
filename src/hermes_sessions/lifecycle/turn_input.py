"""Rules that select the next turn's input from a mailbox; pure.

1. The input of an unfinished turn is taken again as a whole, before everything else, in its
   original order.
2. Resuming after an interruption comes before messages that arrived meanwhile.
3. Consecutive plain messages of one sender form one turn. Two senders are never merged; unknown
   senders count as different.
4. Every other item is a turn of its own.
5. Adjacent items of one chat are in their platform's order if it has one (``order`` in the
   payload), otherwise in order of arrival. Two gateways may have delivered them.
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
    """The input of a turn: one or more items combined into one message."""

    kind: Kind
    items: tuple[MailboxItem, ...]

    @property
    def item_ids(self) -> tuple[int, ...]:
        """Their mailbox ids, in order."""
        return tuple(item.id for item in self.items)

    @property
    def sender(self) -> str | None:
        """The sender of the items."""
        return self.items[0].sender

    @property
    def text(self) -> str:
        """Their texts, one per line."""
        return "\n".join(item.text for item in self.items if item.text)

    @property
    def media(self) -> list[Any]:
        """Their files, in order: the values of ``media`` in the payloads."""
        return [file for item in self.items for file in item.payload.get("media") or ()]

    @property
    def payloads(self) -> list[dict[str, Any]]:
        """The payload of each item."""
        return [item.payload for item in self.items]

    @property
    def is_retry(self) -> bool:
        """Whether an unfinished turn already had them."""
        return self.items[0].turn_id is not None


def next_input(waiting: Sequence[MailboxItem]) -> TurnInput | None:
    """Return the next turn's input from the waiting items; None if there are none."""
    if not waiting:
        return None
    tried = next((item for item in waiting if item.turn_id is not None), None)
    if tried is not None:
        return _input(
            sorted((item for item in waiting if item.turn_id == tried.turn_id), key=_order)
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
    """Return items, given in order of arrival, with adjacent ones of a chat in platform order."""
    ordered: list[MailboxItem] = []
    for (chat, _), side_by_side in groupby(waiting, key=_chat):
        some = list(side_by_side)
        ordered += some if chat is None else sorted(some, key=lambda item: item.payload["order"])
    return ordered


def _chat(item: MailboxItem) -> tuple[str | None, object]:
    """Return the chat whose order applies to an item; None without an order."""
    source, order = item.payload.get("source"), item.payload.get("order")
    if isinstance(order, float):
        has_order = math.isfinite(order)
    else:
        has_order = isinstance(order, int) and not isinstance(order, bool)
    if not has_order or not isinstance(source, dict):
        return None, item.id
    return to_json([source.get("platform"), source.get("chat_id")]), None


def _order(item: MailboxItem) -> tuple[float, int]:
    """Return an item's position in its previous turn; items steered into that turn come last."""
    return item.payload.get("place", math.inf), item.id


def _input(items: Iterable[MailboxItem]) -> TurnInput:
    taken = tuple(items)
    # A message steered into a running turn belongs to it; the turn keeps its initial kind.
    return TurnInput(taken[0].kind, taken)


def dedupe_mark(namespace: str, platform: str, chat_id: str, message_id: str | None) -> str | None:
    """Return a mark that identifies a repeated delivery of a message, for ids of any form.

    None for a message without an id.
    """
    if not message_id:
        return None
    parts = to_json([namespace, str(platform), chat_id, message_id])
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def sender_of(source: SessionSource) -> str | None:
    """Return the sender, for the rule that two senders are never merged.

    In a private chat this is the chat, even if the platform names no user.
    """
    if source.user_id_alt or source.user_id:
        return source.user_id_alt or source.user_id
    return (source.chat_id or None) if source.chat_type == "dm" else None
