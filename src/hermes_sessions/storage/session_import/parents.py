"""Attaches imported sessions to their parents, which may be stored earlier, later or never."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from functools import partial
from typing import Any, Final

from hermes_sessions.model.lineage import COMPRESSION, documented_edge_kind
from hermes_sessions.storage.batches import stuck_message
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import ReadTransaction, SessionDBProvider, WriteTransaction
from hermes_sessions.storage.repositories.leases import require_free
from hermes_sessions.storage.repositories.lineage import ancestors_of, place_family
from hermes_sessions.storage.repositories.rows import VISIBLE
from hermes_sessions.storage.session_import.incoming_session import IncomingSession
from hermes_sessions.storage.store_context import StoreContext

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
        target.write(partial(join_parents, children=page))
        found += len(page)
        after = page[-1]


def _place(tx: WriteTransaction, conversations: Sequence[str]) -> None:
    for conversation_id in conversations:
        recompute_placement(tx, conversation_id)


def _texts(tx: ReadTransaction, sql: str, after: str) -> list[str]:
    return [row[0] for row in tx.all(sql, (after, _PAGE))]


class IncomingEdge:
    """The data to attach a session to its parent once both are stored."""

    __slots__ = (
        "_config",
        "_kind",
        "_schema_version",
        "_source",
        "_started_at",
        "child_id",
        "is_stated",
        "parent_id",
    )

    def __init__(self, incoming: IncomingSession) -> None:
        self.child_id = incoming.id
        self.parent_id = incoming.parent_id or ""
        self.is_stated = incoming.edge_is_stated
        self._kind = incoming.edge_kind
        self._source = incoming.columns["source"]
        self._started_at = incoming.columns["started_at"]
        self._schema_version = incoming.schema_version
        self._config = None if self.is_stated else incoming.columns["model_config"]

    def kind(self, parent_end_reason: str | None, parent_ended_at: float | None) -> str | None:
        """Return the given edge kind, or derive it by the documented rules."""
        if self.is_stated:
            return self._kind
        return documented_edge_kind(
            config=_object(self._config),
            source=self._source,
            started_at=self._started_at,
            parent_end_reason=parent_end_reason,
            parent_ended_at=parent_ended_at,
            schema_version=self._schema_version,
        )


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class AttachOutcome(Enum):
    """The result of attaching a session."""

    TIED = "tied"
    WAITS = "its parent is not stored"
    CIRCLE = "its parent descends from the child"


def tie(tx: WriteTransaction, store: StoreContext, edge: IncomingEdge) -> AttachOutcome:
    """Set the parent of a stored session; call `place_attached` afterwards.

    Raises:
        ConversationHeld: that would change a leased chain.
    """
    parent = tx.one(
        f"SELECT end_reason, ended_at FROM sessions WHERE id = ? AND {VISIBLE}", (edge.parent_id,)
    )
    if parent is None:
        return AttachOutcome.WAITS
    if edge.child_id in ancestors_of(tx, edge.parent_id, through_trash=True):
        return AttachOutcome.CIRCLE
    kind = edge.kind(*parent)
    if kind == COMPRESSION:
        require_free(tx, store, (edge.parent_id, edge.child_id))
    tx.run(
        "UPDATE sessions SET parent_session_id = ?, edge_kind = ? WHERE id = ?",
        (edge.parent_id, kind, edge.child_id),
    )
    return AttachOutcome.TIED


def place_attached(tx: WriteTransaction, edges: Sequence[IncomingEdge]) -> None:
    """Move attached sessions to their parents' conversations, and recompute the placement."""
    conversations: dict[str, str] = {}
    unstated: dict[str, bool] = {}
    for edge in edges:
        conversation_id = _conversation_above(tx, edge.child_id, conversations)
        _move(tx, edge.child_id, conversation_id)
        unstated[conversation_id] = unstated.get(conversation_id, False) or not edge.is_stated
    for conversation_id, activity_is_unstated in unstated.items():
        place_family(tx, conversation_id)
        if activity_is_unstated:
            _raise_tips(tx, conversation_id)


def join_parents(tx: WriteTransaction, children: Sequence[str]) -> None:
    """Move sessions to their parents' conversations; call `recompute_placement` afterwards."""
    known: dict[str, str] = {}
    for child in children:
        _move(tx, child, _conversation_above(tx, child, known))


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
