"""Replacement: a whole transcript written anew, or cleared."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, UnknownSession
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.clock import FrozenClock
from hermes_sessions.testing.conformance.helpers import contents, exchange, ids, session
from hermes_sessions.testing.conformance.recomputation import assert_summary_is_true

CALL = {"id": "call_1", "function": {"name": "f", "arguments": "{}"}}


class TestReplacement:
    """The new transcript takes the place of the old one at once, or not at all."""

    def test_the_new_transcript(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 37: new ids, rising times, counters that fit, reasoning of assistants only."""
        db.create_session("s", "cli")
        old = exchange(db, "s", "old question", "old answer")
        clock.advance(60)
        reasoning: dict[str, Any] = {
            "reasoning": "r",
            "reasoning_content": "rc",
            "reasoning_details": [1],
            "codex_reasoning_items": [2],
            "codex_message_items": [3],
        }
        db.replace_messages(
            "s",
            [
                {"content": "who am I"},
                {"role": "user", "content": "ask", "finish_reason": "f", **reasoning},
                {"role": "assistant", "content": "a", "tool_calls": [CALL, CALL], **reasoning},
                {
                    "role": "tool",
                    "content": "t",
                    "name": "ignored",
                    "tool_name": "n",
                    "tool_call_id": "call_1",
                    "token_count": 9,
                },
            ],
        )
        stored = db.get_messages("s")
        assert [message["role"] for message in stored] == ["unknown", "user", "assistant", "tool"]
        assert contents(stored) == ["who am I", "ask", "a", "t"]
        assert min(ids(stored)) > max(old)
        times = [message["timestamp"] for message in stored]
        assert times == sorted(set(times))
        assert times[0] >= clock()
        user, assistant, tool = stored[1:]
        assert [user[name] for name in reasoning] == [None] * 5
        assert user["finish_reason"] == "f"
        assert (assistant["reasoning"], assistant["reasoning_content"]) == ("r", "rc")
        assert assistant["reasoning_details"] == "[1]"
        assert (tool["tool_name"], tool["tool_call_id"], tool["token_count"]) == ("n", "call_1", 9)
        summary = session(db, "s")
        assert (summary["message_count"], summary["tool_call_count"]) == (4, 2)
        assert_summary_is_true(db, "s")

    def test_times_that_are_stated_are_kept(self, db: SessionDB) -> None:
        """A rewrite does not lose when something was said."""
        db.create_session("s", "cli")
        db.replace_messages("s", [{"role": "user", "content": "a", "timestamp": 1_700_000_000.25}])
        assert db.get_messages("s")[0]["timestamp"] == 1_700_000_000.25

    @pytest.mark.parametrize("bad", ["text", None, 5, {"role": "user", "timestamp": "noon"}])
    def test_a_bad_item_keeps_the_old_transcript(self, db: SessionDB, bad: Any) -> None:
        """Behaviour 38: everything is checked before anything is deleted."""
        db.create_session("s", "cli")
        exchange(db, "s", "question", "answer")
        before = (session(db, "s"), db.get_messages("s"))
        with pytest.raises(InvalidInput):
            db.replace_messages("s", [{"role": "user", "content": "new"}, bad])
        assert (session(db, "s"), db.get_messages("s")) == before

    def test_an_unknown_session(self, db: SessionDB) -> None:
        """Behaviour 39: nothing replaced by nothing is fine; messages need a session."""
        db.replace_messages("missing", [])
        with pytest.raises(UnknownSession):
            db.replace_messages("missing", [{"role": "user", "content": "hi"}])
        assert db.get_session("missing") is None
        assert db.message_count() == 0

    def test_an_empty_transcript(self, db: SessionDB, clock: FrozenClock) -> None:
        """Replacing by nothing clears."""
        db.create_session("s", "cli")
        exchange(db, "s", "question")
        clock.advance(5)
        db.replace_messages("s", [])
        assert db.get_messages("s") == []
        assert_summary_is_true(db, "s")

    def test_the_next_message_follows_the_new_transcript(self, db: SessionDB) -> None:
        """Appending goes on where the replacement ended."""
        db.create_session("s", "cli")
        exchange(db, "s", "1", "2")
        db.replace_messages("s", [{"role": "user", "content": str(n)} for n in range(3)])
        db.append_message("s", "user", "3")
        assert contents(db.get_messages("s")) == ["0", "1", "2", "3"]

    def test_clearing(self, db: SessionDB) -> None:
        """Behaviour 40: all messages go, the session stays, its counters are 0."""
        db.create_session("s", "cli", model="m")
        db.create_session("other", "cli")
        db.append_message("s", "assistant", "x", tool_calls=[CALL])
        exchange(db, "other", "kept")
        db.set_session_title("s", "T")
        db.clear_messages("s")
        assert db.get_messages("s", include_inactive=True) == []
        cleared = session(db, "s")
        assert (cleared["message_count"], cleared["tool_call_count"]) == (0, 0)
        assert (cleared["model"], cleared["title"]) == ("m", "T")
        assert_summary_is_true(db, "s")
        assert db.message_count() == 2

    def test_clearing_takes_rewound_messages_along(self, db: SessionDB) -> None:
        """There is nothing left to bring back."""
        db.create_session("s", "cli")
        question, _ = exchange(db, "s", "question")
        db.rewind_to_message("s", question)
        db.clear_messages("s")
        assert db.restore_rewound("s") == 0
        assert db.get_messages("s", include_inactive=True) == []

    def test_clearing_an_unknown_session(self, db: SessionDB) -> None:
        """Nothing to clear is no error, and creates nothing."""
        db.clear_messages("missing")
        assert db.get_session("missing") is None
