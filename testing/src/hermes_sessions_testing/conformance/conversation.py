"""Conversation: the transcript in the format of model providers."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import compress, contents

CALL = {"id": "call_1", "function": {"name": "検索", "arguments": '{"q": "é"}'}}


class TestConversation:
    """A transcript replays the stored messages without internal columns."""

    def test_only_what_a_provider_takes(self, db: SessionDB) -> None:
        """Role and content are always present, other keys only with a value."""
        db.create_session("s", "cli")
        db.append_message("s", "system", "be kind", token_count=3)
        db.append_message("s", "user", "hi")
        db.append_message("s", "assistant", None, tool_calls=[CALL], finish_reason="tool_calls")
        db.append_message("s", "tool", "found", tool_call_id="call_1", tool_name="検索")
        assert db.get_messages_as_conversation("s") == [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [CALL],
                "finish_reason": "tool_calls",
            },
            {"role": "tool", "content": "found", "tool_call_id": "call_1", "tool_name": "検索"},
        ]

    @pytest.mark.parametrize("role", ["user", "assistant"])
    def test_recalled_memory_is_left_out(self, db: SessionDB, role: str) -> None:
        """Behaviour 34: memory that was injected for one turn is not replayed."""
        db.create_session("s", "cli")
        db.append_message("s", role, "  hi <memory-context>s</memory-context> there ")
        db.append_message(
            "s", role, "a <memory-context>\nx\ny\n</memory-context> b</memory-context>"
        )
        replayed = contents(db.get_messages_as_conversation("s"))
        assert replayed == ["hi  there", "a  b"]
        stored = contents(db.get_messages("s"))
        assert stored[0] == "  hi <memory-context>s</memory-context> there "

    @pytest.mark.parametrize("role", ["tool", "system"])
    def test_other_roles_replay_untouched(self, db: SessionDB, role: str) -> None:
        """Behaviour 34: texts of tools and the system are unchanged."""
        db.create_session("s", "cli")
        text = "  hi <memory-context>s</memory-context> there "
        db.append_message("s", role, text)
        assert contents(db.get_messages_as_conversation("s")) == [text]

    def test_structured_content_replays_untouched(self, db: SessionDB) -> None:
        """Behaviour 34: only text is cleaned."""
        db.create_session("s", "cli")
        parts = [{"type": "text", "text": " <memory-context>s</memory-context> "}]
        db.append_message("s", "user", parts)
        assert contents(db.get_messages_as_conversation("s")) == [parts]

    def test_empty_reasoning(self, db: SessionDB) -> None:
        """Behaviour 35: an empty reasoning_content is kept, an empty reasoning is omitted."""
        db.create_session("s", "cli")
        db.append_message("s", "assistant", "x", reasoning="", reasoning_content="")
        db.append_message("s", "assistant", "y", reasoning="r", reasoning_content="rc")
        first, second = db.get_messages_as_conversation("s")
        assert first == {"role": "assistant", "content": "x", "reasoning_content": ""}
        assert (second["reasoning"], second["reasoning_content"]) == ("r", "rc")

    def test_reasoning_is_the_assistants(self, db: SessionDB) -> None:
        """Behaviour 36: other roles replay without reasoning, but with their tool call."""
        db.create_session("s", "cli")
        extra: dict[str, Any] = {
            "finish_reason": "stop",
            "reasoning": "r",
            "reasoning_content": "rc",
            "reasoning_details": [{"a": 1}],
            "codex_reasoning_items": [{"b": "é"}],
            "codex_message_items": [{"c": 3}],
            "tool_call_id": "call_1",
            "tool_name": "n",
        }
        db.append_message("s", "user", "x", **extra)
        db.append_message("s", "assistant", "y", **extra)
        user, assistant = db.get_messages_as_conversation("s")
        assert user == {"role": "user", "content": "x", "tool_call_id": "call_1", "tool_name": "n"}
        assert assistant == {"role": "assistant", "content": "y", **extra}

    def test_an_unanswered_question_is_asked_once(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 41: a continuation repeats the question its parent ended with."""
        db.create_session("a", "cli")
        db.append_message("a", "user", "question")
        compress(db, clock, "a", "b")
        db.append_message("b", "user", "question")
        db.append_message("b", "assistant", "")
        compress(db, clock, "b", "c")
        db.append_message("c", "user", "question")
        db.append_message("c", "assistant", "answer")
        assert contents(db.get_messages_as_conversation("c", include_ancestors=True)) == [
            "question",
            "",
            "answer",
        ]
        assert contents(db.get_messages_as_conversation("c")) == ["question", "answer"]

    def test_an_answered_question_may_be_asked_again(
        self, db: SessionDB, clock: FrozenClock
    ) -> None:
        """Behaviour 41: both are replayed when an answer or a tool call is between them."""
        db.create_session("a", "cli")
        db.append_message("a", "user", "question")
        db.append_message("a", "assistant", "answer")
        compress(db, clock, "a", "b")
        db.append_message("b", "user", "question")
        db.append_message("b", "assistant", None, tool_calls=[CALL])
        db.append_message("b", "user", "question")
        replayed = contents(db.get_messages_as_conversation("b", include_ancestors=True))
        assert replayed == ["question", "answer", "question", None, "question"]

    def test_ancestors_in_the_order_of_arrival(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 42: across all sessions, regardless of timestamps."""
        db.create_session("a", "cli")
        db.append_message("a", "user", "1")
        db.create_session("b", "cli", parent_session_id="a", edge_kind="branch")
        clock.advance(-3600)
        db.append_message("b", "assistant", "2")
        db.append_message("a", "assistant", "3")
        clock.advance(-3600)
        db.append_message("b", "user", "4")
        db.create_session("stranger", "cli")
        db.append_message("stranger", "user", "not mine")
        assert contents(db.get_messages_as_conversation("b", include_ancestors=True)) == [
            "1",
            "2",
            "3",
            "4",
        ]
        assert contents(db.get_messages_as_conversation("a", include_ancestors=True)) == ["1", "3"]

    def test_no_such_conversation(self, db: SessionDB) -> None:
        """Behaviour 43: an unknown id has no transcript."""
        assert db.get_messages_as_conversation("missing") == []
        assert db.get_messages_as_conversation("missing", include_ancestors=True) == []

    def test_roles_that_alternate(self, db: SessionDB) -> None:
        """Neighbours of one role are joined, results without a call dropped; rows stay."""
        db.create_session("s", "cli")
        stored: list[dict[str, Any]] = [
            {"role": "user", "content": "q1"},
            {"role": "assistant", "content": "a", "tool_calls": [{"id": "c1"}]},
            {"role": "assistant", "content": "b", "tool_calls": [{"call_id": "c2"}]},
            {"role": "tool", "content": "r1", "tool_call_id": "c1"},
            {"role": "tool", "content": "r2", "tool_call_id": "c2"},
            {"role": "tool", "content": "stray", "tool_call_id": "c9"},
            {"role": "assistant", "content": "maybe", "finish_reason": "verification_required"},
            {"role": "assistant", "content": "surely"},
            {"role": "user", "content": "q2"},
            {"role": "user", "content": "q3"},
        ]
        db.append_messages("s", stored)
        repaired = db.get_messages_as_conversation("s", repair_alternation=True)
        assert [(m["role"], m["content"]) for m in repaired] == [
            ("user", "q1"),
            ("assistant", "a\nb"),
            ("tool", "r1"),
            ("tool", "r2"),
            ("assistant", "surely"),
            ("user", "q2\n\nq3"),
        ]
        assert repaired[1]["tool_calls"] == [{"id": "c1"}, {"call_id": "c2"}]
        assert len(db.get_messages_as_conversation("s")) == len(stored)

    def test_neighbours_that_stay_apart(self, db: SessionDB) -> None:
        """Answers with items of their own, unfinished ones, and structured questions."""
        for session_id, first in (
            ("codex", {"codex_message_items": [{"id": 1}]}),
            ("incomplete", {"finish_reason": "incomplete"}),
        ):
            db.create_session(session_id, "cli")
            answer = {"role": "assistant", "content": "one"}
            db.append_messages(
                session_id, [answer | first, {"role": "assistant", "content": "two"}]
            )
            assert len(db.get_messages_as_conversation(session_id, repair_alternation=True)) == 2
        db.create_session("structured", "cli")
        part = {"type": "text", "text": "x"}
        for role in ("user", "assistant"):
            db.append_messages(
                "structured",
                [{"role": role, "content": [part]}, {"role": role, "content": "two"}],
            )
        repaired = db.get_messages_as_conversation("structured", repair_alternation=True)
        both = [part, {"type": "text", "text": "two"}]
        assert [message["content"] for message in repaired] == [[part], "two", both]

    def test_a_result_answers_the_last_call(self, db: SessionDB) -> None:
        """Once, and not beyond the next question."""
        db.create_session("s", "cli")
        asked = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1"}, {"id": "c2"}]}
        db.append_messages(
            "s",
            [
                asked,
                {"role": "tool", "content": "first", "tool_call_id": "c1"},
                {"role": "tool", "content": "again", "tool_call_id": "c1"},
                {"role": "user", "content": "q"},
                {"role": "tool", "content": "late", "tool_call_id": "c2"},
            ],
        )
        repaired = db.get_messages_as_conversation("s", repair_alternation=True)
        assert [message["content"] for message in repaired] == ["", "first", "q"]
