"""A conversation: its current session, and the operations on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.agent.chat import Chat, Origin
from hermes_sessions.agent.clients.port import TextPiece
from hermes_sessions.agent.tools.registry import ToolRegistry
from hermes_sessions.agent.turn import Agent, Ended
from hermes_sessions.errors import ConversationHeld, InvalidInput, NotFound, StaleFence
from hermes_sessions_testing.clock import FrozenClock
from tests.agent.scripted_client import ScriptedClient, says


@pytest.fixture
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:") as db:
        yield db


def conversation(db: SessionDB, *answers: str, session_id: str | None = None) -> Chat:
    agent = Agent(db, ScriptedClient(*map(says, answers)), ToolRegistry())
    return Chat(agent, Origin("cli", "ada", "Be brief."), session_id)


def talk(held: Chat, *texts: str) -> None:
    for text in texts:
        list(held.say(text))


def said(db: SessionDB, session_id: str | None) -> list[Any]:
    assert session_id is not None
    return [message["content"] for message in db.get_messages(session_id)]


def test_the_first_message_starts_the_session(db: SessionDB) -> None:
    held = conversation(db, "hello")
    assert db.session_count() == 0
    talk(held, "hi")
    session = db.get_session(held.session_id or "")
    assert session is not None
    assert (session["source"], session["user_id"], session["model"]) == ("cli", "ada", "scripted-1")
    assert session["system_prompt"] == "Be brief."
    assert said(db, held.session_id) == ["hi", "hello"]


class TestTitles:
    def test_before_and_after_the_first_message(self, db: SessionDB) -> None:
        held = conversation(db, "hello")
        assert held.set_title("  my   project ") == "my project"
        assert (held.title, db.session_count()) == ("my project", 0)
        talk(held, "hi")
        assert held.title == "my project"
        held.set_title("other")
        assert held.title == "other"

    def test_one_that_is_taken(self, db: SessionDB) -> None:
        db.create_session("x", "cli")
        db.set_session_title("x", "taken")
        held = conversation(db, "hello")
        with pytest.raises(InvalidInput, match="already in use"):
            held.set_title("taken")
        with pytest.raises(InvalidInput, match="visible"):
            held.set_title(" \u200b ")

    def test_one_that_is_taken_meanwhile(self, db: SessionDB) -> None:
        held = conversation(db, "hello")
        held.set_title("plan")
        db.create_session("x", "cli")
        db.set_session_title("x", "plan")
        talk(held, "hi")
        assert held.title == "plan #2"


class TestOtherSessions:
    def test_a_new_one(self, db: SessionDB) -> None:
        held = conversation(db, "one", "two")
        talk(held, "first")
        first = held.session_id or ""
        held.start_new("second try")
        assert held.session_id is None
        talk(held, "second")
        assert held.title == "second try"
        session = db.get_session(first)
        assert session is not None
        assert session["end_reason"] == "new_session"

    def test_a_new_one_with_a_bad_title(self, db: SessionDB) -> None:
        held = conversation(db, "one")
        talk(held, "first")
        before = held.session_id
        with pytest.raises(InvalidInput):
            held.start_new("x" * 200)
        assert held.session_id == before

    def test_going_on_with_another(self, db: SessionDB) -> None:
        db.create_session("old", "cli")
        db.append_message("old", "user", "once")
        db.end_session("old", "cli_close")
        db.continue_session("old", "newer", [{"role": "user", "content": "in short"}])
        held = conversation(db, "one", "two")
        talk(held, "first")
        held.switch_to("old")
        assert held.session_id == "newer"
        assert said(db, "newer") == ["in short"]
        talk(held, "and now?")
        assert said(db, "newer") == ["in short", "and now?", "two"]
        with pytest.raises(NotFound):
            held.switch_to("unknown")

    def test_a_session_that_had_ended_continues(self, db: SessionDB) -> None:
        db.create_session("old", "cli")
        db.append_message("old", "user", "once")
        db.end_session("old", "cli_close")
        held = conversation(db, "one", session_id="old")
        ended = db.get_session("old")
        assert ended is not None
        assert ended["ended_at"] is not None
        talk(held, "again")
        going = db.get_session("old")
        assert going is not None
        assert going["ended_at"] is None

    def test_a_branch(self, db: SessionDB) -> None:
        held = conversation(db, "one", "two")
        with pytest.raises(InvalidInput, match="nothing to branch"):
            held.branch()
        talk(held, "first")
        held.set_title("plan")
        origin = held.session_id or ""
        branch = held.branch()
        talk(held, "another way")
        assert said(db, origin) == ["first", "one"]
        assert said(db, branch) == ["first", "one", "another way", "two"]
        made = db.get_session(branch)
        assert made is not None
        assert (made["edge_kind"], made["title"]) == ("branch", "plan #2")
        assert made["user_id"] == "ada"

    def test_a_summary(self, db: SessionDB) -> None:
        held = conversation(db, *"abcdef", "They counted.")
        talk(held, *"123456")
        before = held.session_id
        after = held.compress("numbers")
        assert (held.session_id, after != before) == (after, True)
        assert "They counted." in said(db, after)[0]


class TestLookingAround:
    def test_nothing_is_written_to_what_is_only_looked_at(self, db: SessionDB) -> None:
        for name in ("one", "two", "three"):
            db.create_session(name, "telegram")
            db.append_message(name, "user", "hello")
        held = conversation(db)
        held.switch_to("one")
        held.switch_to("two")
        held.start_new()
        held.switch_to("three")
        session = held.leave("cli_close")
        assert session is not None
        ended = [(db.get_session(name) or {})["ended_at"] for name in ("one", "two", "three")]
        assert ended == [None, None, None]


class TestTakingBack:
    def test_the_last_exchanges(self, db: SessionDB) -> None:
        held = conversation(db, *"abc", "d")
        talk(held, *"123")
        assert held.undo() == {"count": 2, "exchanges": 1, "text": "3"}
        assert held.undo(5) == {"count": 4, "exchanges": 2, "text": "1"}
        with pytest.raises(InvalidInput, match="nothing"):
            held.undo()
        with pytest.raises(InvalidInput, match="1 or more"):
            held.undo(0)
        talk(held, "4")
        assert said(db, held.session_id) == ["4", "d"]

    def test_asking_again(self, db: SessionDB) -> None:
        held = conversation(db, "a", "b")
        with pytest.raises(InvalidInput, match="no question"):
            list(held.retry())
        talk(held, "1")
        list(held.retry())
        assert said(db, held.session_id) == ["1", "b"]


class TestTwoAtOnce:
    """Two surfaces that have the same session open."""

    def test_one_runs_and_the_other_is_told(self, db: SessionDB) -> None:
        first = conversation(db, "a", "one two three")
        talk(first, "1")
        second = conversation(db, "b", session_id=first.session_id)
        second.leave("cli_close")
        turn = first.say("2")
        next(turn)
        for attempt in (
            lambda: list(second.say("3")),
            lambda: list(second.retry()),
            second.undo,
            second.compress,
        ):
            with pytest.raises(ConversationHeld, match=r"a chat from cli on .* \(process "):
                attempt()
        for _ in turn:
            pass
        assert said(db, first.session_id) == ["1", "a", "2", "one two three"]
        talk(second, "3")
        assert said(db, first.session_id) == ["1", "a", "2", "one two three", "3", "b"]
        assert db.lease_of(first.session_id or "") is None

    def test_a_turn_that_is_given_up_holds_nothing(self, db: SessionDB) -> None:
        held = conversation(db, "one two")
        turn = held.say("1")
        next(turn)
        assert db.lease_of(held.session_id or "") is not None
        turn.close()  # type: ignore[attr-defined]
        assert db.lease_of(held.session_id or "") is None

    def test_a_session_that_was_compacted_elsewhere_continues_there(self, db: SessionDB) -> None:
        first = conversation(db, "a", "b", "the summary", "c")
        talk(first, "1", "2")
        second = conversation(db, "d", session_id=first.session_id)
        assert first.compress() != second.session_id
        talk(second, "3")
        assert second.session_id == first.session_id
        assert said(db, first.session_id)[-2:] == ["3", "d"]

    def test_a_turn_in_a_summary_is_held_throughout(self, db: SessionDB) -> None:
        first = conversation(db, "a", "b", "the summary", "c")
        talk(first, "1", "2")
        before = first.session_id
        with first.held() as held:
            assert held == before
            first.compress()
            for session_id in (before, first.session_id):
                with pytest.raises(ConversationHeld):
                    db.append_message(session_id or "", "user", "no")
            assert [event for event in first.answer() if isinstance(event, Ended)]
        db.append_message(first.session_id or "", "user", "free")

    def test_a_turn_that_lost_its_lease_stops(self) -> None:
        clock = FrozenClock()
        with SessionDB(":memory:", clock=clock) as db:

            def taken_over() -> None:
                clock.advance(3600)
                db.take_lease(held.session_id or "", "the next one")

            client = ScriptedClient([TextPiece("one"), taken_over, TextPiece("two")])
            held = Chat(Agent(db, client, ToolRegistry()), Origin("cli", holder="me"))
            with pytest.raises(StaleFence, match="the next one"):
                list(held.say("1"))
            assert said(db, held.session_id) == ["1"]


def test_leaving(db: SessionDB) -> None:
    held = conversation(db, "a")
    assert held.leave("cli_close") is None
    talk(held, "1")
    left = held.leave("cli_close")
    assert left is not None
    assert left["end_reason"] == "cli_close"
