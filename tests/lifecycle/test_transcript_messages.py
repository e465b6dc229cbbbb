"""Transcripts in the format of the documented `SessionStore`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import InvalidInput, UnknownSession
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions_testing.clock import NOON
from tests.lifecycle.senders import ANN
from tests.servers.stores import ONCE


@pytest.fixture
def session_id(sessions: SessionStore) -> str:
    return sessions.get_or_create_session(ANN).session_id


def test_what_is_appended_is_loaded(sessions: SessionStore, session_id: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    written: list[dict[str, Any]] = [
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": "", "tool_calls": [call], "reasoning": "Hm."},
        {"role": "tool", "content": "Seen", "tool_call_id": "c1", "tool_name": "look"},
        {"role": "assistant", "content": [{"type": "text", "text": "Well"}]},
    ]
    ids = [sessions.append_to_transcript(session_id, message) for message in written]
    assert None not in ids
    assert sorted(ids, key=int) == ids  # type: ignore[arg-type]
    assert sessions.load_transcript(session_id) == written
    assert sessions.load_transcript("nowhere") == []


def test_what_the_agent_has_stored_is_not_stored_again(
    sessions: SessionStore, session_id: str
) -> None:
    hello = {"role": "user", "content": "Hello"}
    assert sessions.append_to_transcript(session_id, hello, skip_db=True) is None
    assert sessions.load_transcript(session_id) == []


def test_what_a_message_may_lack(sessions: SessionStore, db: SessionDB, session_id: str) -> None:
    sessions.append_to_transcript(
        session_id, {"content": "?", "reasoning": "not theirs", "unheard_of": 1}
    )
    [stored] = db.get_messages(session_id)
    assert (stored["role"], stored["content"], stored["reasoning"]) == ("unknown", "?", None)


@pytest.mark.parametrize("name", ["platform_message_id", "message_id"])
def test_a_message_of_a_platform_is_stored_once(
    sessions: SessionStore, db: SessionDB, session_id: str, name: str
) -> None:
    message = {"role": "user", "content": "Hello", name: 42}
    first = sessions.append_to_transcript(session_id, message)
    assert sessions.append_to_transcript(session_id, message) == first
    assert db.has_external_id(session_id, "42")
    assert db.message_count(session_id) == 1


@pytest.mark.parametrize(
    "timestamp", [NOON - 60, datetime.fromtimestamp(NOON - 60, UTC), "2025-01-15T11:59:00+00:00"]
)
def test_times(sessions: SessionStore, db: SessionDB, session_id: str, timestamp: object) -> None:
    sessions.append_to_transcript(
        session_id, {"role": "user", "content": "Earlier", "timestamp": timestamp}
    )
    assert db.get_messages(session_id)[0]["timestamp"] == NOON - 60


@pytest.mark.parametrize("message", ["Hello", {"role": "user", "timestamp": "at noon"}])
@ONCE
def test_an_invalid_message(sessions: SessionStore, session_id: str, message: Any) -> None:
    with pytest.raises(InvalidInput):
        sessions.append_to_transcript(session_id, message)
    assert sessions.load_transcript(session_id) == []


def test_a_write_that_fails_is_loud(sessions: SessionStore) -> None:
    with pytest.raises(UnknownSession):
        sessions.append_to_transcript("nowhere", {"role": "user", "content": "Hello"})


def test_rewriting(sessions: SessionStore, session_id: str) -> None:
    for text in ("a", "b", "c"):
        sessions.append_to_transcript(session_id, {"role": "user", "content": text})
    new = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "!"}]
    sessions.rewrite_transcript(session_id, new)
    assert sessions.load_transcript(session_id) == new
    with pytest.raises(InvalidInput):
        sessions.rewrite_transcript(session_id, [{"role": "user", "content": "x"}, "y"])  # type: ignore[list-item]
    assert sessions.load_transcript(session_id) == new


@pytest.mark.parametrize(
    ("turns", "undone", "count", "text"),
    [(1, 1, 2, "three"), (2, 2, 4, "two\nparts"), (0, 1, 2, "three"), (99, 3, 6, "one")],
)
def test_rewinding(
    sessions: SessionStore, session_id: str, turns: int, undone: int, count: int, text: str
) -> None:
    parts = [{"type": "text", "text": "two"}, {"type": "text", "text": "parts"}]
    for said in ("one", parts, "three"):
        sessions.append_to_transcript(session_id, {"role": "user", "content": said})
        sessions.append_to_transcript(session_id, {"role": "assistant", "content": "Yes."})
    assert sessions.rewind_session(session_id, turns) == {
        "rewound_count": count,
        "turns_undone": undone,
        "target_text": text,
    }
    assert len(sessions.load_transcript(session_id)) == 6 - count


def test_rewinding_while_another_thread_writes(sessions: SessionStore, session_id: str) -> None:
    """One turn is removed, even if a message arrives at the same moment."""

    def write() -> None:
        for number in range(60):
            sessions.append_to_transcript(session_id, {"role": "user", "content": str(number)})

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        taken = []
        while not writing.done():
            taken.append(sessions.rewind_session(session_id))
        writing.result()
    undone = sum(one["turns_undone"] for one in taken if one)
    assert undone == sum(one["rewound_count"] for one in taken if one)
    assert undone + len(sessions.load_transcript(session_id)) == 60


def test_nothing_to_rewind(sessions: SessionStore, session_id: str) -> None:
    assert sessions.rewind_session(session_id) is None
    assert sessions.rewind_session("nowhere") is None
