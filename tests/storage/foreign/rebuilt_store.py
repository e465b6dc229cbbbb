"""A new store, filled through the public API with the documented rows of another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hermes_sessions import SessionDB
from hermes_sessions.storage.session_copy.parents import recompute_placement
from tests.storage.foreign.programs import Program

Row = tuple[Any, ...]


def rebuilt(
    program: Program, kinds: dict[str, str | None], clock: Callable[[], float]
) -> SessionDB:
    """Return such a store; *kinds* says of each session why it has its parent."""
    sessions = {
        row[0]: row
        for row in program.run(
            "SELECT id, source, started_at, parent_session_id, ended_at, end_reason, message_count "
            "FROM sessions"
        )
    }
    messages = program.run(
        "SELECT session_id, role, content, timestamp, ordinal FROM messages ORDER BY ordinal, id"
    )
    db = SessionDB(":memory:", clock=clock)
    for session_id, source, started_at, parent, *_ in _parents_first(sessions):
        tie: dict[str, Any] = {}
        if parent in sessions:
            tie = {"parent_session_id": parent, "edge_kind": kinds[session_id]}
        db.create_session(session_id, source, started_at=started_at, **tie)
    for session_id, role, content, timestamp, _ in messages:
        if session_id in sessions:
            db.append_message(session_id, role=role, content=content, timestamp=timestamp)

    def finish(tx: Any) -> None:
        for session_id, *_, ended_at, end_reason, message_count in sessions.values():
            tx.run(
                "UPDATE sessions SET ended_at = ?, end_reason = ?, message_count = ? WHERE id = ?",
                (ended_at, end_reason, message_count, session_id),
            )
        for (conversation_id,) in tx.all("SELECT DISTINCT conversation_id FROM sessions"):
            recompute_placement(tx, conversation_id)

    db.provider.write(finish)
    return db


def _parents_first(sessions: dict[str, Row]) -> list[Row]:
    ordered: dict[str, Row] = {}
    while len(ordered) < len(sessions):
        ready = {
            one: row
            for one, row in sessions.items()
            if one not in ordered and (row[3] in ordered or row[3] not in sessions)
        }
        assert ready, "a circle of parents was left"
        ordered |= ready
    return list(ordered.values())


def everything_shown(db: SessionDB, names: tuple[str, ...]) -> dict[str, Any]:
    """What lists, resuming, search, recall and pruning make of a store."""
    shown: dict[str, Any] = {}
    for variant in (
        {},
        {"order_by_last_active": False},
        {"include_children": True},
        {"project_compression_tips": False},
    ):
        rows = db.list_sessions_rich(limit=-1, **variant)
        shown[f"list {variant}"] = [
            (row["id"], row["preview"], row["last_active"], row.get("_lineage_root_id"))
            for row in rows
        ]
    shown["flat"] = [(row["id"], row["last_active"]) for row in db.search_sessions(limit=-1)]
    for name in names:
        if db.get_session(name) is None:
            continue
        shown[f"of {name}"] = {
            "tip": db.get_compression_tip(name),
            "resume": db.resolve_resume_session_id(name),
            "root": db.get_conversation_root(name),
            "family": [row["id"] for row in db.list_conversation(name)],
            "chain": db.get_compression_lineage(name),
            "messages": [(m["role"], m["content"], m["timestamp"]) for m in db.get_messages(name)],
        }
    hits = db.search("word", limit=100, sort="newest").hits
    shown["search"] = sorted((h.session_id, h.conversation_id, h.timestamp) for h in hits)
    for days in (0, 1, 2):
        shown[f"prunable {days}"] = [
            (row["id"], row["preview"], row["last_active"])
            for row in db.list_prune_candidates(older_than_days=days)
        ]
    return shown
