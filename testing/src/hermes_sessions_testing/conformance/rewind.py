"""Rewind: hiding the end of a transcript, recorded and undoable."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, UnknownSession
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import (
    assert_summary_is_true,
    bases_of,
    contents,
    exchange,
    ids,
    session,
)

# Replacement: a whole transcript is rewritten or cleared.


CALL = {"id": "call_1", "function": {"name": "f", "arguments": "{}"}}


class TestReplacement:
    """The new transcript replaces the old one in one transaction."""

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
        user, assistant, tool = map(dict[str, Any], stored[1:])
        assert [user[name] for name in reasoning] == [None] * 5
        assert user["finish_reason"] == "f"
        assert (assistant["reasoning"], assistant["reasoning_content"]) == ("r", "rc")
        assert assistant["reasoning_details"] == "[1]"
        assert (tool["tool_name"], tool["tool_call_id"], tool["token_count"]) == ("n", "call_1", 9)
        summary = session(db, "s")
        assert (summary["message_count"], summary["tool_call_count"]) == (4, 2)
        assert_summary_is_true(db, "s")

    def test_times_that_are_stated_are_kept(self, db: SessionDB) -> None:
        """A rewrite keeps given timestamps."""
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
        """Appended messages follow the replacement."""
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
        """Earlier rewinds cannot be undone afterwards."""
        db.create_session("s", "cli")
        question, _ = exchange(db, "s", "question")
        db.rewind_to_message("s", question)
        db.clear_messages("s")
        assert db.restore_rewound("s") == 0
        assert db.get_messages("s", include_inactive=True) == []

    def test_clearing_an_unknown_session(self, db: SessionDB) -> None:
        """Clearing an unknown session does nothing."""
        db.clear_messages("missing")
        assert db.get_session("missing") is None


def three_exchanges(db: SessionDB) -> list[int]:
    """Create session ``s`` with q1 a1 q2 a2 q3 a3; return the ids of the six messages."""
    db.create_session("s", "cli")
    added = []
    for number in (1, 2, 3):
        added += exchange(db, "s", f"q{number}", f"a{number}")
    return added


class TestRewind:
    """Rewound messages are hidden from replay and counts, and kept."""

    def test_a_rewind_hides_the_tail(self, db: SessionDB) -> None:
        """Behaviour 92: the question and everything after it; the rest stays."""
        _, a1, q2, *_ = three_exchanges(db)
        done = db.rewind_to_message("s", q2)
        assert done["rewound_count"] == 4
        assert done["target_text"] == "q2"
        assert done["new_head_id"] == a1
        assert contents(db.get_messages("s")) == ["q1", "a1"]
        assert contents(db.get_messages_as_conversation("s")) == ["q1", "a1"]
        kept = db.get_messages("s", include_inactive=True)
        assert contents(kept) == ["q1", "a1", "q2", "a2", "q3", "a3"]
        assert [bool(message["active"]) for message in kept] == [True] * 2 + [False] * 4
        assert_summary_is_true(db, "s")

    def test_only_to_a_users_message(self, db: SessionDB) -> None:
        """Behaviour 92: of this session; anything else is a ValueError and changes nothing."""
        _, a1, *_ = three_exchanges(db)
        db.create_session("other", "cli")
        foreign, _ = exchange(db, "other", "foreign")
        before = (session(db, "s"), db.get_messages("s"))
        for session_id, message_id in (("s", a1), ("s", foreign), ("s", 10**9), ("missing", a1)):
            with pytest.raises(InvalidInput) as raised:
                db.rewind_to_message(session_id, message_id)
            assert "ValueError" in bases_of(raised.value)
        assert (session(db, "s"), db.get_messages("s")) == before
        assert db.list_rewinds("s") == []

    def test_the_same_rewind_again(self, db: SessionDB) -> None:
        """Behaviour 92: hides nothing more, and is counted."""
        _, _, q2, *_ = three_exchanges(db)
        db.rewind_to_message("s", q2)
        again = db.rewind_to_message("s", q2)
        assert again["rewound_count"] == 0
        assert session(db, "s")["rewind_count"] == 2
        assert len(db.list_rewinds("s")) == 2
        assert contents(db.get_messages("s")) == ["q1", "a1"]

    def test_back_to_the_beginning(self, db: SessionDB, clock: FrozenClock) -> None:
        """A transcript may be taken back as a whole."""
        clock.advance(5)
        q1, *_ = three_exchanges(db)
        clock.advance(5)
        assert db.rewind_to_message("s", q1)["new_head_id"] is None
        assert db.get_messages("s") == []
        assert_summary_is_true(db, "s")

    def test_every_rewind_is_on_record(self, db: SessionDB, clock: FrozenClock) -> None:
        """When, to which message, how many, and whether it was undone."""
        q1, _, q2, *_ = three_exchanges(db)
        first = db.rewind_to_message("s", q2)
        rewound_at = [clock(), clock.advance(60)]
        second = db.rewind_to_message("s", q1)
        restored_at = clock.advance(60)
        db.restore_rewound("s")
        record = db.list_rewinds("s")
        assert ids(record) == [first["rewind_id"], second["rewind_id"]]
        assert [entry["target_message_id"] for entry in record] == [q2, q1]
        assert [entry["hidden_count"] for entry in record] == [4, 2]
        assert [entry["rewound_at"] for entry in record] == rewound_at
        assert [entry["restored_at"] for entry in record] == [None, restored_at]
        assert db.list_rewinds("missing") == []

    def test_restoring_undoes_the_newest_rewind_first(self, db: SessionDB) -> None:
        """One step at a time, until nothing is hidden."""
        q1, _, q2, *_ = three_exchanges(db)
        before = db.get_messages("s")
        db.rewind_to_message("s", q2)
        db.rewind_to_message("s", q1)
        db.rewind_to_message("s", q1)
        assert db.restore_rewound("s") == 2
        assert contents(db.get_messages("s")) == ["q1", "a1"]
        assert_summary_is_true(db, "s")
        assert db.restore_rewound("s") == 4
        assert db.get_messages("s") == before
        assert_summary_is_true(db, "s")
        assert db.restore_rewound("s") == 0
        assert db.restore_rewound("missing") == 0

    def test_a_session_that_went_on_is_not_mixed_up(self, db: SessionDB) -> None:
        """Rewound messages are not restored between later ones."""
        _, _, q2, *_ = three_exchanges(db)
        db.rewind_to_message("s", q2)
        exchange(db, "s", "q2 again", "better")
        with pytest.raises(InvalidInput):
            db.restore_rewound("s")
        assert contents(db.get_messages("s")) == ["q1", "a1", "q2 again", "better"]
        assert_summary_is_true(db, "s")

    def test_rewinding_what_came_after_a_rewind(self, db: SessionDB) -> None:
        """A rewind to a message that is hidden already hides what was said since."""
        _, _, q2, *_ = three_exchanges(db)
        db.rewind_to_message("s", q2)
        exchange(db, "s", "new", "newer")
        assert db.rewind_to_message("s", q2)["rewound_count"] == 2
        assert contents(db.get_messages("s")) == ["q1", "a1"]
        assert db.restore_rewound("s") == 2
        assert contents(db.get_messages("s")) == ["q1", "a1", "new", "newer"]

    def test_the_advice_leads_to_what_was_hidden(self, db: SessionDB) -> None:
        """After later messages, the error names the two calls that restore the first version."""
        _, _, q2, *_ = three_exchanges(db)
        before = db.get_messages("s")
        first = db.rewind_to_message("s", q2)["rewind_id"]
        other, _ = exchange(db, "s", "q2 again", "better")
        with pytest.raises(InvalidInput) as raised:
            db.restore_rewound("s")
        rewind_it, restore_it = f"('s', {other})", f"('s', rewind_id={first})"
        assert rewind_it in str(raised.value)
        assert restore_it in str(raised.value)
        db.rewind_to_message("s", other)
        assert db.restore_rewound("s", rewind_id=first) == 4
        assert db.get_messages("s") == before
        assert_summary_is_true(db, "s")

    def test_going_back_and_forth_between_two_ways(self, db: SessionDB) -> None:
        """Each version is restored as it was; the two are never mixed."""
        _, _, q2, *_ = three_exchanges(db)
        first = db.rewind_to_message("s", q2)["rewind_id"]
        other, _ = exchange(db, "s", "q2 again", "better")
        second = db.rewind_to_message("s", other)["rewind_id"]
        db.restore_rewound("s", rewind_id=first)
        with pytest.raises(InvalidInput):
            db.restore_rewound("s", rewind_id=second)
        assert contents(db.get_messages("s")) == ["q1", "a1", "q2", "a2", "q3", "a3"]
        third = db.rewind_to_message("s", q2)["rewind_id"]
        assert db.restore_rewound("s", rewind_id=second) == 2
        assert contents(db.get_messages("s")) == ["q1", "a1", "q2 again", "better"]
        db.rewind_to_message("s", other)
        assert db.restore_rewound("s", rewind_id=third) == 4
        assert contents(db.get_messages("s")) == ["q1", "a1", "q2", "a2", "q3", "a3"]

    def test_a_rewind_below_another(self, db: SessionDB) -> None:
        """Messages hidden first cannot be restored before those they followed."""
        _, _, q2, _, q3, _ = three_exchanges(db)
        first = db.rewind_to_message("s", q3)["rewind_id"]
        second = db.rewind_to_message("s", q2)["rewind_id"]
        with pytest.raises(InvalidInput, match=rf"rewind_id={second}\)"):
            db.restore_rewound("s", rewind_id=first)
        assert db.restore_rewound("s", rewind_id=second) == 2
        assert db.restore_rewound("s", rewind_id=first) == 2
        assert db.restore_rewound("s", rewind_id=first) == 0

    def test_only_a_rewind_of_the_session_can_be_chosen(self, db: SessionDB) -> None:
        """A rewind of another session is refused."""
        _, _, q2, *_ = three_exchanges(db)
        chosen = db.rewind_to_message("s", q2)["rewind_id"]
        db.create_session("other", "cli")
        for session_id, rewind_id in (("other", chosen), ("s", chosen + 1)):
            with pytest.raises(InvalidInput, match="list_rewinds"):
                db.restore_rewound(session_id, rewind_id=rewind_id)
        assert contents(db.get_messages("s")) == ["q1", "a1"]

    def test_what_one_can_rewind_to(self, db: SessionDB) -> None:
        """The user's messages in force, newest first."""
        _, _, _, _, q3, _ = three_exchanges(db)
        assert contents(db.list_recent_user_messages("s")) == ["q3", "q2", "q1"]
        assert contents(db.list_recent_user_messages("s", limit=2)) == ["q3", "q2"]
        db.rewind_to_message("s", q3)
        assert contents(db.list_recent_user_messages("s")) == ["q2", "q1"]
        assert db.list_recent_user_messages("missing") == []

    def test_structured_content_has_a_text(self, db: SessionDB) -> None:
        """The text of the target comes back for the prompt line, whatever its form was."""
        db.create_session("s", "cli")
        parts = [{"type": "text", "text": "look at"}, {"type": "text", "text": "this"}]
        target = db.append_message("s", "user", parts)
        assert db.rewind_to_message("s", target)["target_text"] == "look at this"

    def test_exports_keep_what_was_rewound(self, db: SessionDB) -> None:
        """An export is a backup."""
        _, _, q2, *_ = three_exchanges(db)
        db.rewind_to_message("s", q2)
        exported = db.export_session("s")
        assert exported is not None
        assert len(exported["messages"]) == 6
