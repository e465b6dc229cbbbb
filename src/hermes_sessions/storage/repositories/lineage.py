"""Lineage: conversations, compression chains, and the session that a resume continues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hermes_sessions.model.lineage import (
    COMPRESSION,
    SUBAGENT,
    LineageMember,
    documented_edge_kind,
    place_members,
    roots_of,
)
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.repositories.leases import held, lease_row
from hermes_sessions.storage.repositories.rows import (
    SELECT_SESSION,
    VISIBLE,
    names,
    scope_condition,
    session_record,
)
from hermes_sessions.storage.repositories.stale_sessions import forget_notes, settled_read
from hermes_sessions.storage.store_context import StoreContext

if TYPE_CHECKING:
    from hermes_sessions.storage.records import SessionRecord

_ORPHAN_AGE_SECONDS = 7 * 86400
_EDGES_PER_QUERY = 500
_MOST_HOPS = 32


class Lineage:
    """Queries about related sessions."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def tip_of(self, session_id: str) -> str:
        """See `SessionDB.get_compression_tip`."""
        with settled_read(self._store) as tx:
            if conversation_id_of(tx, session_id) is None:
                return session_id
            return follow_compression(tx, session_id)

    def resume_target(self, session_id: str) -> str:
        """See `SessionDB.resolve_resume_session_id`."""
        if not session_id:
            return session_id
        with settled_read(self._store) as tx:
            if conversation_id_of(tx, session_id) is None:
                return session_id
            tip = follow_compression(tx, session_id)
            seen: set[str] = set()
            current: str | None = tip
            while current is not None and current not in seen:
                if _has_messages(tx, current):
                    return current
                seen.add(current)
                current = _newest_child(tx, current)
        return tip if tip != session_id else session_id

    def deepest_continuation(self, session_id: str) -> str:
        """Return the session that Hermes 0.19 resumes: of the tip of the chain and the sessions
        that continue it without a compression, the last one with a message of any kind; the tip
        if none has one.
        """
        if not session_id:
            return session_id
        with settled_read(self._store) as tx:
            if conversation_id_of(tx, session_id) is None:
                return session_id
            chosen = tip = follow_compression(tx, session_id)
            seen: list[str] = []
            current: str | None = tip
            while current is not None and current not in seen and len(seen) <= _MOST_HOPS:
                if tx.one("SELECT 1 FROM messages WHERE session_id = ? LIMIT 1", (current,)):
                    chosen = current
                seen.append(current)
                current = _newest_plain_child(tx, current)
        return chosen

    def adopt_continuations(self, session_id: str) -> None:
        """Make a child that was created while its parent was being compressed a continuation of it,
        by the rules of the documented layout.
        """

        def work(tx: WriteTransaction) -> None:
            parent = tx.one(
                f"SELECT end_reason, ended_at, conversation_id FROM sessions "
                f"WHERE id = ? AND {VISIBLE}",
                (session_id,),
            )
            children = tx.all(
                f"SELECT id, source, started_at FROM sessions WHERE parent_session_id = ? "
                f"AND edge_kind IS NULL AND {VISIBLE}",
                (session_id,),
            )
            early = [
                child
                for child, source, started_at in children
                if parent is not None
                and documented_edge_kind(
                    config=None,
                    source=source,
                    started_at=started_at,
                    parent_end_reason=parent[0],
                    parent_ended_at=parent[1],
                    schema_version=22,
                )
                == COMPRESSION
            ]
            for child in early:
                tx.run("UPDATE sessions SET edge_kind = ? WHERE id = ?", (COMPRESSION, child))
            if early and parent is not None:
                place_family(tx, parent[2])

        self._store.provider.write(work)

    def conversation_of(self, session_id: str) -> str:
        """See `SessionDB.get_conversation_root`."""
        with settled_read(self._store) as tx:
            return conversation_id_of(tx, session_id) or session_id

    def family_of(self, session_id: str, scope: Scope = OWNER) -> list[SessionRecord]:
        """See `SessionDB.list_conversation`."""
        seen, params = scope_condition(scope)
        with settled_read(self._store) as tx:
            rows = tx.all(
                f"{SELECT_SESSION} WHERE conversation_id = (SELECT conversation_id FROM sessions "
                f"WHERE id = ? AND {VISIBLE} AND {seen}) AND {VISIBLE} AND {seen} "
                f"ORDER BY started_at, id",
                (session_id, *params, *params),
            )
        return [session_record(row) for row in rows]

    def chain_of(self, session_id: str) -> list[str]:
        """See `SessionDB.get_compression_lineage`."""
        with settled_read(self._store) as tx:
            row = tx.one(
                f"SELECT chain_id, conversation_id FROM sessions WHERE id = ? AND {VISIBLE}",
                (session_id,),
            )
            if row is None:
                return []
            members = tx.all(
                f"SELECT id FROM sessions WHERE conversation_id = ? AND chain_id = ? "
                f"AND {VISIBLE} ORDER BY started_at, id",
                (row[1], row[0]),
            )
        return [member[0] for member in members]

    def finalize_orphans(self) -> int:
        """See `SessionDB.finalize_orphaned_compression_sessions`."""
        now = self._store.clock()
        return self._store.provider.write(
            lambda tx: tx.run(
                f"UPDATE sessions SET ended_at = ?, end_reason = ? "
                f"WHERE edge_kind = ? AND ended_at IS NULL AND started_at < ? "
                f"AND api_call_count = 0 AND message_count > 0 AND {VISIBLE}",
                (now, "orphaned_compression", COMPRESSION, now - _ORPHAN_AGE_SECONDS),
            )
        )


def conversation_id_of(tx: ReadTransaction, session_id: str) -> str | None:
    """Return the conversation of a session, or None if the session does not exist."""
    row = tx.one(f"SELECT conversation_id FROM sessions WHERE id = ? AND {VISIBLE}", (session_id,))
    return row[0] if row else None


def follow_compression(tx: ReadTransaction, session_id: str) -> str:
    """Return the session that continues *session_id* now, or *session_id* itself."""
    seen = {session_id}
    while True:
        row = tx.one(
            f"SELECT id FROM sessions WHERE parent_session_id = ? AND edge_kind = ? "
            f"AND {VISIBLE} ORDER BY started_at DESC, id DESC LIMIT 1",
            (session_id, COMPRESSION),
        )
        if row is None or row[0] in seen:
            return session_id
        session_id = row[0]
        seen.add(session_id)


def ancestors_of(tx: ReadTransaction, session_id: str, *, through_trash: bool = False) -> list[str]:
    """Return the session and its parents up to the root, nearest first.

    Stops at a session in the trash, unless *through_trash*.
    """
    seen = "" if through_trash else f" AND {VISIBLE}"
    chain: dict[str, None] = {}
    current: str | None = session_id
    while current is not None and current not in chain:
        row = tx.one(f"SELECT parent_session_id FROM sessions WHERE id = ?{seen}", (current,))
        if row is None:
            break
        chain[current] = None
        current = row[0]
    return list(chain)


def subagents_of(tx: ReadTransaction, session_id: str) -> list[str]:
    """Return all subagent sessions below *session_id*."""
    found: list[str] = []
    waiting = [session_id]
    while waiting:
        for (child,) in tx.all(
            "SELECT id FROM sessions WHERE parent_session_id = ? AND edge_kind = ?",
            (waiting.pop(), SUBAGENT),
        ):
            if child != session_id and child not in found:
                found.append(child)
                waiting.append(child)
    return found


def adopt(tx: WriteTransaction, session_id: str, parent_id: str, edge_kind: str | None) -> None:
    """Give a root session its parent, unless that would make a cycle."""
    if session_id in ancestors_of(tx, parent_id, through_trash=True):
        return
    conversation_id = conversation_id_of(tx, parent_id)
    # In one statement: triggers note a change of the parent alone as one by another program.
    tx.run(
        "UPDATE sessions SET parent_session_id = ?, edge_kind = ?, conversation_id = ? "
        "WHERE id = ?",
        (parent_id, edge_kind, conversation_id, session_id),
    )
    tx.run(
        "UPDATE sessions SET conversation_id = ? WHERE conversation_id = ?",
        (conversation_id, session_id),
    )
    place_family(tx, conversation_id)


def restore_parents(tx: WriteTransaction, edges: Sequence[tuple[str, str]]) -> None:
    """Set the parents of copied sessions that have none, given as (parent, child) pairs. All other
    columns, including the edge kind, were copied before.
    """
    unexplained = [
        row[0]
        for start in range(0, len(edges), _EDGES_PER_QUERY)
        for part in (edges[start : start + _EDGES_PER_QUERY],)
        for row in tx.all(
            f"SELECT id FROM sessions WHERE edge_kind IS NULL AND parent_session_id IS NULL "
            f"AND id IN ({placeholders(len(part))})",
            [child for _, child in part],
        )
    ]
    tx.run_many(
        "UPDATE sessions SET parent_session_id = ? WHERE id = ? AND parent_session_id IS NULL",
        edges,
    )
    # Triggers noted these sessions as changed by another program.
    tx.run_many(
        "UPDATE sessions SET edge_kind = NULL WHERE id = ?", [(child,) for child in unexplained]
    )
    forget_notes(tx, unexplained)


def start_conversation(tx: WriteTransaction, session_id: str) -> None:
    """Make a session without a parent the first of its own conversation, with its descendants."""
    waiting, seen = [session_id], {session_id}
    while waiting:
        member = waiting.pop()
        tx.run("UPDATE sessions SET conversation_id = ? WHERE id = ?", (session_id, member))
        for (child,) in tx.all("SELECT id FROM sessions WHERE parent_session_id = ?", (member,)):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    place_family(tx, session_id)


class Tie(NamedTuple):
    """What relates a session to its family."""

    parent_id: str | None
    conversation_id: str | None
    started_at: float


def join_families(tx: WriteTransaction, ties: Mapping[str, Tie]) -> list[str]:
    """Give each of these sessions the conversation of its topmost ancestor, and recompute chains
    and lists. Return the sessions that were their own ancestors: the oldest of each cycle becomes
    a root.
    """
    roots = roots_of(
        {one: tie.parent_id for one, tie in ties.items()}, lambda one: (ties[one].started_at, one)
    )
    conversations = sorted(set(roots.values()))
    cut = [one for one in conversations if ties[one].parent_id in ties]
    tx.run_many(
        "UPDATE sessions SET parent_session_id = NULL, edge_kind = NULL, conversation_id = ? "
        "WHERE id = ?",
        [(one, one) for one in cut],
    )
    tx.run_many(
        "UPDATE sessions SET conversation_id = ? WHERE id = ?",
        [(root, one) for one, root in roots.items() if root != ties[one].conversation_id],
    )
    for conversation_id in conversations:
        place_family(tx, conversation_id)
    return cut


class _FamilyRow(NamedTuple):
    """Columns of ``sessions`` that describe its place in the family."""

    id: str
    parent_session_id: str | None
    edge_kind: str | None
    started_at: float
    trashed_at: float | None
    chain_id: str
    tip_id: str | None
    listed: int
    fence: int | None


def place_family(tx: WriteTransaction, conversation_id: str | None) -> None:
    """Recompute chains and listing of one conversation after its edges changed.

    A session that joins a leased chain gets the fence of that chain.

    Raises:
        ConversationHeld: a leased session would become part of another chain; nothing is written.
    """
    found = tx.all(
        f"SELECT {names(_FamilyRow._fields)} FROM sessions WHERE conversation_id = ?",
        (conversation_id,),
    )
    rows = [_FamilyRow._make(row) for row in found]
    fences = {row.id: row.fence for row in rows}
    placements = place_members(
        LineageMember(
            row.id,
            row.parent_session_id,
            row.edge_kind,
            row.started_at,
            trashed=row.trashed_at is not None,
        )
        for row in rows
    )
    moved = []
    for row in rows:
        placement = placements.get(row.id)
        wanted = (
            (placement.chain_id, placement.tip_id, int(placement.listed))
            if placement
            else (row.id, None, 0)
        )
        if wanted[0] != row.chain_id and row.fence is not None:
            # Nothing was written yet.
            raise held(row.id, lease_row(tx, row.chain_id))
        if wanted != (row.chain_id, row.tip_id, row.listed):
            moved.append((row, wanted))
    for row, wanted in moved:
        tx.run(
            "UPDATE sessions SET chain_id = ?, tip_id = ?, listed = ? WHERE id = ?",
            (*wanted, row.id),
        )
        if wanted[0] != row.chain_id:
            _join_chain(tx, row.id, wanted[0], fences[wanted[0]])


def _join_chain(tx: WriteTransaction, session_id: str, chain_id: str, fence: int | None) -> None:
    """Give a session that joined a chain the fence of the chain's head."""
    if session_id != chain_id:
        tx.run("UPDATE sessions SET fence = ? WHERE id = ?", (fence, session_id))
        # A rival that takes the lease changes the head, too, so one waits for the other.
        tx.run("UPDATE sessions SET chain_id = chain_id WHERE id = ?", (chain_id,))


def _has_messages(tx: ReadTransaction, session_id: str) -> bool:
    row = tx.one(
        f"SELECT 1 FROM sessions WHERE id = ? AND message_count > 0 AND {VISIBLE}", (session_id,)
    )
    return row is not None


def _newest_plain_child(tx: ReadTransaction, session_id: str) -> str | None:
    row = tx.one(
        f"SELECT id FROM sessions WHERE parent_session_id = ? AND source <> ? "
        f"AND (edge_kind IS NULL OR edge_kind = ?) AND {VISIBLE} "
        f"ORDER BY started_at DESC, id DESC LIMIT 1",
        (session_id, "tool", COMPRESSION),
    )
    return row[0] if row else None


def _newest_child(tx: ReadTransaction, session_id: str) -> str | None:
    row = tx.one(
        f"SELECT id FROM sessions WHERE parent_session_id = ? "
        f"AND (edge_kind IS NULL OR edge_kind <> ?) AND {VISIBLE} "
        f"ORDER BY started_at DESC, id DESC LIMIT 1",
        (session_id, SUBAGENT),
    )
    return row[0] if row else None
