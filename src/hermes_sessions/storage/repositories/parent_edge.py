"""What a new session has from its parent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hermes_sessions.errors import UnknownSession
from hermes_sessions.model.lineage import (
    COMPRESSION,
    SAME_PERSON_KINDS,
    edge_kind_at_creation,
)
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.repositories.rows import (
    PLACE_COLUMNS,
    THREAD_COLUMNS,
    VISIBLE,
    names,
)

_OWN_THREAD: Final[Mapping[str, Any]] = dict.fromkeys(THREAD_COLUMNS)


class ParentEdge(NamedTuple):
    """Values that a session inherits from its parent."""

    conversation_id: str
    kind: str | None = None
    #: The parent's user, if the session belongs to the same user.
    user_id: str | None = None
    #: Those of `THREAD_COLUMNS` that the session has from its parent.
    thread: Mapping[str, Any] = _OWN_THREAD

    def complete(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return *values* with what they lack of the thread; a directory of its own excludes all
        that describes the parent's.
        """
        is_elsewhere = values.get("cwd") is not None
        kept = {
            name: value
            for name, value in self.thread.items()
            if values.get(name) is None and not (is_elsewhere and name in PLACE_COLUMNS)
        }
        return dict.fromkeys(THREAD_COLUMNS) | dict(values) | kept


def edge_to(
    tx: ReadTransaction,
    parent_id: str,
    edge_kind: str | None,
    config: dict[str, Any] | None,
    source: str,
) -> ParentEdge:
    """Return the values that a child of *parent_id* from *source* inherits."""
    parent = tx.one(
        f"SELECT conversation_id, end_reason, user_id, source, {names(THREAD_COLUMNS)} "
        f"FROM sessions WHERE id = ? AND {VISIBLE}",
        (parent_id,),
    )
    if parent is None:
        raise UnknownSession(parent_id, "parent session")
    conversation_id, end_reason, user_id, parent_source, *thread = parent
    kind = edge_kind or edge_kind_at_creation(end_reason, config)
    # The same id on another platform may be a different user.
    is_theirs = kind in SAME_PERSON_KINDS and source == parent_source
    inherited = PLACE_COLUMNS if kind in SAME_PERSON_KINDS else ()
    return ParentEdge(
        conversation_id or parent_id,
        kind,
        user_id=user_id if is_theirs else None,
        thread={
            name: value if kind == COMPRESSION or name in inherited else None
            for name, value in zip(THREAD_COLUMNS, thread, strict=True)
        },
    )
