"""What the summary columns of a session must say, worked out anew from its messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.conformance.helpers import session

Record = dict[str, Any]


def summary_of(messages: Sequence[Record], started_at: float) -> Record:
    """Return counters, preview and last activity of a session with these messages."""
    asked = [m["content"] for m in messages if m["role"] == "user" and m["content"] is not None]
    return {
        "message_count": len(messages),
        "tool_call_count": sum(_calls(message["tool_calls"]) for message in messages),
        "preview": _preview(asked[0]) if asked else "",
        "last_active": max((m["timestamp"] for m in messages), default=started_at),
    }


def assert_summary_is_true(db: SessionDB, session_id: str) -> None:
    """Compare what every reader says about a session with its messages in force."""
    stored = session(db, session_id)
    expected = summary_of(db.get_messages(session_id), stored["started_at"])
    listed = {
        row["id"]: row
        for row in db.list_sessions_rich(limit=-1, include_children=True, include_archived=True)
    }
    assert {name: listed[session_id][name] for name in expected} == expected
    assert db.message_count(session_id) == expected["message_count"]
    for name in ("message_count", "tool_call_count"):
        assert stored[name] == expected[name]
    flat = {row["id"]: row for row in db.search_sessions(limit=-1)}
    assert flat[session_id]["last_active"] == expected["last_active"]


def _calls(tool_calls: Any) -> int:
    if not tool_calls:
        return 0
    return len(tool_calls) if isinstance(tool_calls, list) else 1


def _preview(content: Any) -> str:
    text = " ".join(_text(content).split())
    return text if len(text) <= 60 else text[:60] + "..."


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return " ".join(part["text"] for part in parts if isinstance(part, dict) and part.get("text"))
