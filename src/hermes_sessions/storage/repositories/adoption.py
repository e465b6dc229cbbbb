"""Tying imported sessions to their parents, which may be stored earlier, later or never."""

from __future__ import annotations

import json
from typing import Any

from hermes_sessions.model.legacy import documented_edge_kind
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.incoming import IncomingSession
from hermes_sessions.storage.repositories.lineage import ancestors_of, place_family
from hermes_sessions.storage.repositories.rows import VISIBLE


class IncomingEdge:
    """What is needed to tie a session to its parent once both are stored."""

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
        """Return the stated kind, or what the documented rules make of it."""
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


def tie(tx: WriteTransaction, edge: IncomingEdge) -> str | None:
    """Return the conversation both are in now, "" when that would make a circle, None while the
    parent is not stored.
    """
    parent = tx.one(
        f"SELECT conversation_id, end_reason, ended_at FROM sessions WHERE id = ? AND {VISIBLE}",
        (edge.parent_id,),
    )
    if parent is None:
        return None
    conversation_id, end_reason, ended_at = parent
    if edge.child_id in ancestors_of(tx, edge.parent_id):
        return ""
    tx.run(
        "UPDATE sessions SET parent_session_id = ?, edge_kind = ? WHERE id = ?",
        (edge.parent_id, edge.kind(end_reason, ended_at), edge.child_id),
    )
    movers = [edge.child_id]
    while movers:
        mover = movers.pop()
        if tx.run(
            "UPDATE sessions SET conversation_id = ? WHERE id = ? AND conversation_id <> ?",
            (conversation_id, mover, conversation_id),
        ):
            children = tx.all("SELECT id FROM sessions WHERE parent_session_id = ?", (mover,))
            movers += [row[0] for row in children]
    return str(conversation_id)


def place_imported(tx: WriteTransaction, conversation_id: str, *, raise_tips: bool) -> None:
    """Recompute chains and listing of a conversation whose edges were imported; *raise_tips* when
    the activity of its threads was not stated.
    """
    place_family(tx, conversation_id)
    if raise_tips:
        _raise_tips(tx, conversation_id)


def _raise_tips(tx: WriteTransaction, conversation_id: str) -> None:
    """A thread is as recent as its most recent part, though an earlier one be written to."""
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
