"""Which conversations a prune deletes: those that ended, match, and that nothing protects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hermes_sessions.model.lineage import SUBAGENT
from hermes_sessions.model.prune_filters import PruneFilters, ThreadMember, conversation_matches
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.repositories.holds import conversations_on_hold
from hermes_sessions.storage.repositories.leases import leased_conversations
from hermes_sessions.storage.repositories.rows import VISIBLE, names
from hermes_sessions.storage.repositories.stale_sessions import unsettled_conversations
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.repositories.label_conditions import LabelFilter


def finished_conversations(
    tx: ReadTransaction,
    store: StoreContext,
    cutoff: float,
    source: str | None,
    wanted: PruneFilters,
    labels: LabelFilter | None = None,
) -> list[str]:
    """Return the conversations to prune, oldest first: all members have ended, were last active by
    *cutoff* and are not in use, pinned or held; all but subagents match.
    """
    held = leased_conversations(tx, store.clock())
    held |= conversations_on_hold(tx, store)
    if not store.provider.read_only:
        # A session that another program changed may be newer than its stale columns say.
        held |= unsettled_conversations(tx)
    selected = [] if labels is None else labels.conditions(str, store.provider.dialect)
    if source:
        selected.append(("source = ?", (source,)))
    free = [c for c in _finished_conversations(tx, cutoff, selected) if c not in held]
    if not wanted:
        return free
    return [c for c in free if conversation_matches(members_of(tx, c), wanted)]


def _finished_conversations(
    tx: ReadTransaction, cutoff: float, selected: Iterable[tuple[str, tuple[Any, ...]]]
) -> list[str]:
    """Return the conversations without a pin whose members have all ended and were last active by
    *cutoff*, oldest first. All members but subagents must satisfy the conditions of *selected*.
    """
    condition, params = "", list[object]()
    for one, values in selected:
        condition += f"AND SUM(CASE WHEN {one} THEN 0 WHEN edge_kind = ? THEN 0 ELSE 1 END) = 0 "
        params += [*values, SUBAGENT]
    rows = tx.all(
        f"SELECT conversation_id FROM sessions WHERE {VISIBLE} GROUP BY conversation_id "
        f"HAVING SUM(CASE WHEN ended_at IS NULL OR pinned_at IS NOT NULL THEN 1 ELSE 0 END) = 0 "
        f"AND MAX(last_active) <= ? {condition}ORDER BY MAX(last_active), conversation_id",
        (cutoff, *params),
    )
    return [row[0] for row in rows]


def members_of(tx: ReadTransaction, conversation_id: str) -> list[ThreadMember]:
    """Return the sessions of a conversation, reduced to what filters read."""
    rows = tx.all(
        f"SELECT {names(ThreadMember._fields)} FROM sessions WHERE conversation_id = ? "
        f"AND {VISIBLE}",
        (conversation_id,),
    )
    return [ThreadMember._make(row) for row in rows]
