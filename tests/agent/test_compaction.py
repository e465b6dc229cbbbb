"""Compaction: a summary, the last messages, and an unchanged original."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.agent.clients.port import ModelUnavailable, Reply, ToolCall, Usage
from hermes_sessions.agent.compaction import (
    HEADING,
    CompactionBusy,
    compact,
    estimated_tokens,
    is_nearly_full,
)
from hermes_sessions.agent.request_messages import build_request_messages
from hermes_sessions.errors import InvalidInput, UnknownSession
from tests.agent.scripted_client import ScriptedClient, says


@pytest.fixture
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:") as db:
        db.create_session("s", "cli", system_prompt="Be brief.")
        db.set_session_title("s", "my project")
        for number in range(12):
            db.append_message("s", "user", f"question {number} about the pangolin")
            db.append_message("s", "assistant", f"answer {number}")
        yield db


def test_the_session_continues(db: SessionDB) -> None:
    reply = Reply("They spoke of it.", "stop", usage=Usage(input_tokens=90, output_tokens=4))
    client = ScriptedClient([reply])
    assert compact(db, "s", client, new_session_id="t", focus="the ledger") == "t"
    contents = [message["content"] for message in db.get_messages("t")]
    assert contents[0] == f"{HEADING}\nThey spoke of it."
    assert contents[-2:] == ["question 11 about the pangolin", "answer 11"]
    assert len(contents) == 7
    assert db.get_session_title("t") == "my project #2"
    assert len(db.get_messages("s")) == 24
    assert db.get_compression_lock_holder("s") is None
    asked = client.requests[0].messages[0]["content"]
    assert "the ledger" in asked
    assert "question 8" in asked
    assert "question 11" not in asked
    (usage,) = db.get_model_usage("s")
    assert (usage["task"], usage["input_tokens"]) == ("compression", 90)


def test_a_short_session_keeps_how_it_ended(db: SessionDB) -> None:
    db.create_session("short", "cli")
    for text in ("one", "two"):
        db.append_message("short", "user", text)
        db.append_message("short", "assistant", f"to {text}")
    client = ScriptedClient(says("They counted."))
    compact(db, "short", client, new_session_id="t")
    contents = [message["content"] for message in db.get_messages("t")]
    assert contents == [f"{HEADING}\nThey counted.", "two", "to two"]
    assert "to one" in client.requests[0].messages[0]["content"]


@pytest.mark.parametrize(("is_answered", "kept"), [(True, 0), (False, 1)])
def test_what_is_most_of_a_session_is_kept_while_it_waits_for_an_answer(
    db: SessionDB, is_answered: bool, kept: int
) -> None:
    db.create_session("short", "cli")
    texts = [("user", "one"), ("assistant", "to one"), ("user", "x" * 3000)]
    for role, text in [*texts, ("assistant", "to x")][: 4 if is_answered else 3]:
        db.append_message("short", role, text)
    compact(db, "short", ScriptedClient(says("They counted.")), new_session_id="t")
    assert len(db.get_messages("t")) == 1 + kept


def test_a_call_keeps_its_result(db: SessionDB) -> None:
    call = ToolCall("c", "f", "{}")
    for number in range(8):
        part = call.as_message_part() | {"id": f"c{number}"}
        db.append_message("s", "assistant", None, tool_calls=[part])
        db.append_message("s", "tool", "r", tool_call_id=f"c{number}", tool_name="f")
    compact(db, "s", ScriptedClient(says("short")), new_session_id="t")
    history = db.get_messages_as_conversation("t")
    assert build_request_messages(history) == build_request_messages(history[:1])


def test_nothing_happens_when_the_model_fails(db: SessionDB) -> None:
    client = ScriptedClient([ModelUnavailable("down")], [Reply("  ")])
    for _ in range(2):
        with pytest.raises(Exception, match=r"down|no summary"):
            compact(db, "s", client, new_session_id="t")
        assert db.get_session("t") is None
        session = db.get_session("s")
        assert session is not None
        assert session["ended_at"] is None
        assert db.get_compression_lock_holder("s") is None


def test_two_at_once(db: SessionDB) -> None:
    db.try_acquire_compression_lock("s", "other:1")
    with pytest.raises(CompactionBusy, match="other:1"):
        compact(db, "s", ScriptedClient(), new_session_id="t")


def test_what_cannot_be_compacted(db: SessionDB) -> None:
    db.create_session("empty", "cli")
    with pytest.raises(InvalidInput, match="too short"):
        compact(db, "empty", ScriptedClient(), new_session_id="t")
    with pytest.raises(UnknownSession):
        compact(db, "unknown", ScriptedClient(), new_session_id="t")


def test_a_long_history_is_cut_for_the_model(db: SessionDB) -> None:
    for number in range(50):
        db.append_message("s", "user", f"{number} " + "word " * 2000)
        db.append_message("s", "assistant", "ok")
    client = ScriptedClient(says("short"))
    compact(db, "s", client, new_session_id="t", most_input=2_000)
    asked = client.requests[0].messages[0]["content"]
    assert len(asked) < 12_000
    assert "[earlier messages left out]" in asked
    assert "[…]" in asked


def test_when_it_is_time() -> None:
    assert estimated_tokens([{"role": "user", "content": "x" * 400}]) == 100
    assert is_nearly_full(81, 100)
    assert not is_nearly_full(80, 100)
