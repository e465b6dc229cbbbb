"""Helpers of the conformance tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock

# The expected summary columns of a session, computed from its messages.


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
    """Compare the summaries of a session in every reader with its active messages."""
    stored = session(db, session_id)
    expected = summary_of(db.get_messages(session_id), stored["started_at"])
    listed = {
        row["id"]: dict[str, Any](row)
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


Record = Mapping[str, Any]


def exchange(db: SessionDB, session_id: str, question: str, answer: str = "ok") -> list[int]:
    """Append a question and its answer; return their ids."""
    return db.append_messages(
        session_id,
        [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
    )


def say(db: SessionDB, session_id: str, *texts: Any, **options: Any) -> list[int]:
    """Create a session in which user and assistant say *texts* in turn; return the message ids.

    *options* are those of `SessionDB.create_session`, and ``title``.
    """
    title = options.pop("title", None)
    db.create_session(session_id, options.pop("source", "cli"), **options)
    if title is not None:
        db.set_session_title(session_id, title)
    return db.append_messages(
        session_id,
        [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)],
    )


def found(db: SessionDB, query: str, **options: Any) -> list[str]:
    """Return the snippets that a query finds without relaxation, in order.

    *options* are those of `SessionDB.search`.
    """
    answer = db.search(query, **({"limit": 100, "relax": False} | options))
    return [unmarked(hit.snippet) for hit in answer.hits]


def unmarked(snippet: str) -> str:
    """Return a snippet without the markers around matches."""
    return snippet.replace(">>>", "").replace("<<<", "")


def compress(db: SessionDB, clock: FrozenClock, old: str, new: str, **options: Any) -> str:
    """Continue *old* under a new id, in the order agents do it; return the new id."""
    return _succeed(db, clock, old, new, "compression", options)


def branch(db: SessionDB, clock: FrozenClock, old: str, new: str, **options: Any) -> str:
    """Fork *old*, in the order agents do it; return the new id."""
    return _succeed(db, clock, old, new, "branched", options)


def _succeed(
    db: SessionDB, clock: FrozenClock, old: str, new: str, reason: str, options: dict[str, Any]
) -> str:
    clock.advance(1)
    db.end_session(old, reason)
    clock.advance(1)
    return db.create_session(new, options.pop("source", "cli"), parent_session_id=old, **options)


def session(db: SessionDB, session_id: str) -> Record:
    """Return a session that must exist."""
    found = db.get_session(session_id)
    assert found is not None, f"{session_id!r} is missing"
    return found


def contents(messages: Iterable[Record]) -> list[Any]:
    """Return the contents of messages."""
    return [message["content"] for message in messages]


def ids(rows: Iterable[Record]) -> list[Any]:
    """Return the ids of rows, in order."""
    return [row["id"] for row in rows]


def bases_of(error: BaseException) -> set[str]:
    """Return the names of all classes of an error, such as ``sqlite3.IntegrityError``.

    The kit names the error classes of Python's sqlite3 module, which callers of the documented API
    catch on every database, without importing that module.
    """
    classes = type(error).__mro__
    return {f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.") for cls in classes}
