"""Places written sessions in the conversations of their parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from hermes_sessions.storage.batches import stuck_message
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import ReadTransaction, SessionDBProvider, WriteTransaction
from hermes_sessions.storage.repositories.lineage import place_family
from hermes_sessions.storage.repositories.rows import VISIBLE

logger = Logger(__name__)

#: Passes that search for sessions outside their parents' conversations; two or three suffice.
_MOST_LOOKS: Final = 10
_PAGE: Final = 100
#: Skips conversations of a single session that is already placed correctly.
_NOT_ALONE: Final = (
    "SELECT conversation_id FROM sessions WHERE conversation_id > ? GROUP BY conversation_id "
    "HAVING COUNT(*) > 1 OR MAX(CASE WHEN chain_id = id AND tip_id = id AND listed = 1 "
    "THEN 0 ELSE 1 END) = 1 ORDER BY conversation_id LIMIT ?"
)
_APART: Final = (
    "SELECT c.id FROM sessions c JOIN sessions p ON p.id = c.parent_session_id "
    "WHERE c.id > ? AND c.conversation_id <> p.conversation_id ORDER BY c.id LIMIT ?"
)


def place_all_conversations(target: SessionDBProvider) -> None:
    """Move every session to its parent's conversation, and recompute all placements."""
    apart = before = 0
    # A moved session may separate others from their parents, which the next pass finds. If passes
    # do not suffice, another program keeps undoing them.
    for _ in range(_MOST_LOOKS):
        apart = _join_all(target)
        if apart in {0, before}:
            break
        before = apart
    else:
        logger.warning("%s", stuck_message("Joining conversations", apart))
    after = ""
    while True:
        with target.read() as tx:
            page = _texts(tx, _NOT_ALONE, after)
        if not page:
            return
        target.write(partial(_place, conversations=page))
        after = page[-1]


def _join_all(target: SessionDBProvider) -> int:
    """Check all sessions once; return how many were outside their parents' conversations."""
    found = 0
    after = ""
    while True:
        with target.read() as tx:
            page = _texts(tx, _APART, after)
        if not page:
            return found
        target.write(partial(_join, children=page))
        found += len(page)
        after = page[-1]


def _join(tx: WriteTransaction, children: Sequence[str]) -> None:
    known: dict[str, str] = {}
    for child in children:
        _move(tx, child, _conversation_above(tx, child, known))


def _place(tx: WriteTransaction, conversations: Sequence[str]) -> None:
    for conversation_id in conversations:
        recompute_placement(tx, conversation_id)


def _texts(tx: ReadTransaction, sql: str, after: str) -> list[str]:
    return [row[0] for row in tx.all(sql, (after, _PAGE))]


def place_attached(tx: WriteTransaction, children: Mapping[str, bool]) -> None:
    """Move sessions that got a parent to its conversation, and recompute the placement; of each,
    whether its activity is up to date.
    """
    known: dict[str, str] = {}
    is_settled: dict[str, bool] = {}
    for child, is_stated in children.items():
        conversation_id = _conversation_above(tx, child, known)
        _move(tx, child, conversation_id)
        is_settled[conversation_id] = is_settled.get(conversation_id, True) and is_stated
    for conversation_id, is_stated in is_settled.items():
        place_family(tx, conversation_id)
        if not is_stated:
            _raise_tips(tx, conversation_id)


def recompute_placement(tx: WriteTransaction, conversation_id: str) -> None:
    """Recompute chains, listing and activity of one conversation."""
    place_family(tx, conversation_id)
    _raise_tips(tx, conversation_id)


def _conversation_above(tx: ReadTransaction, session_id: str, known: dict[str, str]) -> str:
    """Return the conversation of the topmost ancestor, or of a member of a cycle that another
    program made; caches it in *known* for all sessions on the way.
    """
    passed: dict[str, None] = {}
    while session_id not in known:
        row = tx.one(
            "SELECT parent_session_id, conversation_id FROM sessions WHERE id = ?", (session_id,)
        )
        is_circle = session_id in passed
        passed[session_id] = None
        if row is None or row[0] is None or is_circle:
            known[session_id] = str(row[1]) if row else session_id
        else:
            session_id = row[0]
    found = known[session_id]
    known.update(dict.fromkeys(passed, found))
    return found


def _move(tx: WriteTransaction, session_id: str, conversation_id: str) -> None:
    """Move a session and its descendants to a conversation."""
    movers = [session_id]
    while movers:
        mover = movers.pop()
        if tx.run(
            "UPDATE sessions SET conversation_id = ? WHERE id = ? AND conversation_id <> ?",
            (conversation_id, mover, conversation_id),
        ):
            children = tx.all("SELECT id FROM sessions WHERE parent_session_id = ?", (mover,))
            movers += [row[0] for row in children]


def _raise_tips(tx: WriteTransaction, conversation_id: str) -> None:
    """Set the activity of each tip to the latest activity in its chain."""
    for chain_id, newest in tx.all(
        f"SELECT chain_id, MAX(last_active) FROM sessions WHERE conversation_id = ? AND {VISIBLE} "
        f"GROUP BY chain_id",
        (conversation_id,),
    ):
        tx.run(
            "UPDATE sessions SET last_active = ? "
            "WHERE conversation_id = ? AND chain_id = ? AND listed = 1 AND last_active < ?",
            (newest, conversation_id, chain_id, newest),
        )
