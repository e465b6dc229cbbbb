"""What lists show of a session, worked out anew from its messages.

Appending keeps these columns as it goes; whoever takes messages away, or brings them back, calls
`refresh_summary`.
"""

from __future__ import annotations

from typing import Final

from hermes_sessions.model.message import preview_of
from hermes_sessions.storage.codec import decode_content
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories.new_message import calls_in
from hermes_sessions.storage.repositories.rows import VISIBLE

_IN_FORCE: Final = "session_id = ? AND active = 1 AND compacted = 0"


def refresh_summary(tx: WriteTransaction, session_id: str) -> None:
    """Recompute a session's counters, preview and activity from its messages in force, and the
    activity of the thread it is part of.
    """
    counts = tx.all(
        f"SELECT tool_calls FROM messages WHERE {_IN_FORCE} AND tool_calls IS NOT NULL",
        (session_id,),
    )
    total = tx.one(f"SELECT COUNT(*) FROM messages WHERE {_IN_FORCE}", (session_id,))
    tx.run(
        "UPDATE sessions SET message_count = ?, tool_call_count = ? WHERE id = ?",
        (total[0] if total else 0, sum(calls_in(row[0]) for row in counts), session_id),
    )
    refresh_derived(tx, session_id)
    refresh_thread(tx, session_id)


def refresh_derived(tx: WriteTransaction, session_id: str) -> None:
    """Recompute a session's preview and its own activity; the documented counters are left to
    the program that changed the messages.
    """
    first = tx.one(
        "SELECT content, content_type FROM messages WHERE session_id = ? AND active = 1 "
        "AND role = ? AND content IS NOT NULL ORDER BY ordinal LIMIT 1",
        (session_id, "user"),
    )
    tx.run(
        "UPDATE sessions SET preview = ?, last_active = COALESCE(?, started_at) WHERE id = ?",
        (
            preview_of(decode_content(first[0], first[1])) if first else None,
            _newest(tx, session_id),
            session_id,
        ),
    )


def refresh_thread(tx: WriteTransaction, session_id: str) -> None:
    """Let the tip of the thread that a session is part of be as recent as its most recent part."""
    row = tx.one(
        "SELECT part.conversation_id, part.chain_id, head.tip_id "
        "FROM sessions part JOIN sessions head ON head.id = part.chain_id WHERE part.id = ?",
        (session_id,),
    )
    if row is None or row[2] is None or row[1] == row[2]:
        return
    conversation_id, chain_id, tip_id = row
    others = tx.one(
        f"SELECT MAX(last_active) FROM sessions WHERE conversation_id = ? AND chain_id = ? "
        f"AND id <> ? AND {VISIBLE}",
        (conversation_id, chain_id, tip_id),
    )
    tx.run(
        "UPDATE sessions SET last_active = COALESCE(?, started_at) WHERE id = ?",
        (_newest(tx, tip_id), tip_id),
    )
    if others is not None:
        tx.run(
            "UPDATE sessions SET last_active = ? WHERE id = ? AND last_active < ?",
            (others[0], tip_id, others[0]),
        )


def _newest(tx: ReadTransaction, session_id: str) -> float | None:
    row = tx.one(f"SELECT MAX(timestamp) FROM messages WHERE {_IN_FORCE}", (session_id,))
    return row[0] if row else None
