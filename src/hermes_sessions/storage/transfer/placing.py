"""Working out lineage anew where sessions of two stores came together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from hermes_sessions.storage.batched_work import stuck
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import ReadTransaction, SessionDBProvider, WriteTransaction
from hermes_sessions.storage.session_import.parents import join_parents, place_anew

logger = Logger(__name__)

#: Looks for sessions that are apart from their parents; two or three are enough.
_MOST_LOOKS: Final = 10
_PAGE: Final = 100
#: One session that stands alone is in its place; all others are looked at.
_NOT_ALONE: Final = (
    "SELECT conversation_id FROM sessions WHERE conversation_id > ? GROUP BY conversation_id "
    "HAVING COUNT(*) > 1 OR MAX(CASE WHEN chain_id = id AND tip_id = id AND listed = 1 "
    "THEN 0 ELSE 1 END) = 1 ORDER BY conversation_id LIMIT ?"
)
_APART: Final = (
    "SELECT c.id FROM sessions c JOIN sessions p ON p.id = c.parent_session_id "
    "WHERE c.id > ? AND c.conversation_id <> p.conversation_id ORDER BY c.id LIMIT ?"
)


def place_all(target: SessionDBProvider) -> None:
    """Make every session part of its parent's conversation, and place all conversations."""
    apart = before = 0
    # One that was joined may have led to others, which the next look finds. The rest is undone by
    # another program, again and again.
    for _ in range(_MOST_LOOKS):
        apart = _join_all(target)
        if apart in {0, before}:
            break
        before = apart
    else:
        logger.warning("%s", stuck("Joining conversations", apart))
    after = ""
    while True:
        with target.read() as tx:
            page = _texts(tx, _NOT_ALONE, after)
        if not page:
            return
        target.write(partial(_place, conversations=page))
        after = page[-1]


def _join_all(target: SessionDBProvider) -> int:
    """Look at all sessions once; return how many were not in their parents' conversations."""
    found = 0
    after = ""
    while True:
        with target.read() as tx:
            page = _texts(tx, _APART, after)
        if not page:
            return found
        target.write(partial(join_parents, children=page))
        found += len(page)
        after = page[-1]


def _place(tx: WriteTransaction, conversations: Sequence[str]) -> None:
    for conversation_id in conversations:
        place_anew(tx, conversation_id)


def _texts(tx: ReadTransaction, sql: str, after: str) -> list[str]:
    return [row[0] for row in tx.all(sql, (after, _PAGE))]
