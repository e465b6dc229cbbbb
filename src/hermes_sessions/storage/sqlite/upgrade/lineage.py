"""Stores the lineage of the old layout explicitly, once.

The old layout inferred why a session has a parent from how and when the parent ended. This is
evaluated one last time and stored; from then on nothing depends on timestamps.
"""

from __future__ import annotations

import json
from typing import Any

import apsw

from hermes_sessions.model.lineage import (
    LineageMember,
    documented_edge_kind,
    place_members,
    roots_of,
)
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.row_scan import fetch

logger = Logger(__name__)


def settle_lineage(connection: apsw.Connection, version: int) -> None:
    """Fill conversation, edge kind, chain, tip and listing of every session.

    *version* is the schema version of the file, whose rules apply.
    """
    _drop_dangling_parents(connection)
    _fill_conversations(connection)
    if _cut_cycles(connection):
        _fill_conversations(connection)
    _fill_edge_kinds(connection, version)
    _place_loners(connection)
    _place_families(connection)
    _raise_tips(connection)


def _drop_dangling_parents(connection: apsw.Connection) -> None:
    connection.execute(
        "UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id IS NOT NULL "
        "AND parent_session_id NOT IN (SELECT id FROM sessions)"
    )
    if dropped := connection.changes():
        logger.warning("%d sessions named a parent that does not exist", dropped)


def _fill_conversations(connection: apsw.Connection) -> None:
    connection.execute("UPDATE sessions SET conversation_id = NULL")
    connection.execute(
        "WITH RECURSIVE family(id, root) AS ("
        "SELECT id, id FROM sessions WHERE parent_session_id IS NULL "
        "UNION ALL SELECT s.id, f.root FROM family f JOIN sessions s ON s.parent_session_id = f.id"
        ") UPDATE sessions SET conversation_id = family.root FROM family "
        "WHERE family.id = sessions.id"
    )


def _cut_cycles(connection: apsw.Connection) -> bool:
    """Make the oldest session of every cycle a root; return whether there was a cycle."""
    without = fetch(
        connection,
        "SELECT id, parent_session_id, started_at FROM sessions WHERE conversation_id IS NULL",
    )
    started = {session_id: time for session_id, _, time in without}
    roots = roots_of({row[0]: row[1] for row in without}, lambda one: (started[one], one))
    cut = set(roots.values())
    for session_id in cut:
        connection.execute(
            "UPDATE sessions SET parent_session_id = NULL WHERE id = ?", (session_id,)
        )
        logger.warning("Session %s was its own ancestor; it is a root now", session_id)
    return bool(cut)


def _fill_edge_kinds(connection: apsw.Connection, version: int) -> None:
    connection.execute("UPDATE sessions SET edge_kind = NULL")
    children = fetch(
        connection,
        "SELECT child.id, child.source, child.started_at, parent.end_reason, parent.ended_at, "
        "CASE WHEN instr(child.model_config, '_delegate_from') "
        "OR instr(child.model_config, '_branched_from') THEN child.model_config END "
        "FROM sessions child JOIN sessions parent ON parent.id = child.parent_session_id",
    )
    kinds = [
        (
            documented_edge_kind(
                config=_markers(config),
                source=source,
                started_at=started_at,
                parent_end_reason=end_reason,
                parent_ended_at=ended_at,
                schema_version=version,
            ),
            session_id,
        )
        for session_id, source, started_at, end_reason, ended_at, config in children
    ]
    connection.executemany(
        "UPDATE sessions SET edge_kind = ? WHERE id = ?", [pair for pair in kinds if pair[0]]
    )


def _markers(model_config: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(model_config or "null")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _place_loners(connection: apsw.Connection) -> None:
    connection.execute("UPDATE sessions SET chain_id = id, tip_id = NULL, listed = 0")
    connection.execute(
        "UPDATE sessions SET tip_id = id, listed = 1 WHERE parent_session_id IS NULL "
        "AND NOT EXISTS (SELECT 1 FROM sessions child WHERE child.parent_session_id = sessions.id)"
    )


def _place_families(connection: apsw.Connection) -> None:
    families = fetch(
        connection,
        "SELECT DISTINCT conversation_id FROM sessions WHERE parent_session_id IS NOT NULL",
    )
    for family in families:
        rows = fetch(
            connection,
            "SELECT id, parent_session_id, edge_kind, started_at FROM sessions "
            "WHERE conversation_id = ?",
            family,
        )
        placements = place_members([LineageMember(*row) for row in rows])
        connection.executemany(
            "UPDATE sessions SET chain_id = ?, tip_id = ?, listed = ? WHERE id = ?",
            [(p.chain_id, p.tip_id, int(p.listed), one) for one, p in placements.items()],
        )


def _raise_tips(connection: apsw.Connection) -> None:
    """Show a chain's latest activity in listings, whichever member had it."""
    connection.execute(
        "UPDATE sessions SET last_active = chain.newest FROM "
        "(SELECT chain_id, MAX(last_active) AS newest FROM sessions GROUP BY chain_id "
        "HAVING COUNT(*) > 1) AS chain "
        "WHERE chain.chain_id = sessions.chain_id AND listed = 1 AND last_active < chain.newest"
    )
