"""Writes conversations for recall tests into a store."""

from typing import Any

from hermes_sessions import SessionDB

HOUR = 3600.0
#: 2026-03-01 09:00:00 UTC.
MORNING = 1_772_355_600.0


def talk(
    db: SessionDB,
    session_id: str,
    *texts: str,
    source: str = "cli",
    user: str | None = "anna",
    title: str | None = None,
    start: float = MORNING,
    parent: str | None = None,
    edge: str | None = None,
    model: str | None = "m-1",
) -> list[int]:
    """Store a session of user and assistant turns, a minute apart, and return the ids."""
    db.create_session(
        session_id,
        source,
        user_id=user,
        model=model,
        started_at=start,
        parent_session_id=parent,
        edge_kind=edge,
    )
    ids = db.append_messages(
        session_id,
        [
            {"role": ("user", "assistant")[i % 2], "content": text, "timestamp": start + 60 * i}
            for i, text in enumerate(texts)
        ],
    )
    if title is not None:
        db.set_session_title(session_id, title)
    return ids


def continue_in(db: SessionDB, old: str, new: str, *texts: str, **options: Any) -> list[int]:
    """End a session by compression and go on in a new one."""
    db.end_session(old, "compression")
    return talk(db, new, *texts, parent=old, edge="compression", **options)


def ids_of(result: dict[str, Any]) -> list[str]:
    """Return the sessions of an answer, in order."""
    return [entry["session_id"] for entry in result["results"]]
