"""One turn: what is stored, also after interruptions and failures."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.agent.clients.port import (
    ModelUnavailable,
    ReasoningPiece,
    Reply,
    TextPiece,
    ToolCall,
    Usage,
)
from hermes_sessions.agent.request_messages import NO_RESULT
from hermes_sessions.agent.tools.builtin import default_tools
from hermes_sessions.agent.tools.registry import Tool, ToolContext, ToolRegistry
from hermes_sessions.agent.turn import Agent, Ended, Stored, ToolFinished, ToolStarted
from hermes_sessions.errors import ConversationHeld, UnknownSession
from tests.agent.scripted_client import ScriptedClient, says

CALL = ToolCall("c1", "echo", '{"text": "hi"}')
ECHO = Tool("echo", "Says it again.", {"type": "object"}, lambda given, _: given.get("text", ""))


@pytest.fixture
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:") as db:
        db.create_session("s", "cli", system_prompt="Be brief.")
        yield db


def agent(db: SessionDB, client: ScriptedClient, *tools: Tool) -> Agent:
    return Agent(db, client, ToolRegistry(*tools))


def transcript(db: SessionDB) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in db.get_messages("s")]


class TestRun:
    def test_a_new_session_is_created_and_continued(self, db: SessionDB) -> None:
        client = ScriptedClient(says("Noted."), says("Seven."))
        new = Agent(db, client)
        first = new.run("Remember seven.")
        assert (str(first), first.how) == ("Noted.", "answered")
        assert (db.get_session(first.session_id) or {})["source"] == "python"
        second = new.run("Which number?", first.session_id)
        assert (second.text, second.session_id) == ("Seven.", first.session_id)
        assert len(db.get_messages(first.session_id)) == 4
        assert db.lease_of(first.session_id) is None

    def test_tools_are_any_iterable(self, db: SessionDB) -> None:
        client = ScriptedClient([Reply("", tool_calls=(CALL,))], says("It said hi."))
        listed = Agent(db, client, [ECHO])
        assert listed.run("Echo hi.", "s").text == "It said hi."
        assert ("tool", "hi") in transcript(db)
        assert replace(listed, model="other").tool_registry is listed.tool_registry

    def test_what_happens_can_be_watched(self, db: SessionDB) -> None:
        events = list(Agent(db, ScriptedClient(says("Done."))).stream("Do it.", "s"))
        assert [type(event).__name__ for event in events][-2:] == ["Answered", "Ended"]
        assert transcript(db) == [("user", "Do it."), ("assistant", "Done.")]

    def test_it_holds_the_conversation(self, db: SessionDB) -> None:
        events = Agent(db, ScriptedClient(says("One."))).stream("First", "s")
        next(events)
        with pytest.raises(ConversationHeld, match="an agent on"):
            Agent(db, ScriptedClient(says("Two."))).run("Second", "s")
        list(events)
        assert [content for _, content in transcript(db)] == ["First", "One."]

    def test_a_model_that_fails_raises(self, db: SessionDB) -> None:
        with pytest.raises(ModelUnavailable, match="overloaded"):
            Agent(db, ScriptedClient([ModelUnavailable("overloaded")])).run("Hello?", "s")
        assert transcript(db) == [("user", "Hello?")]

    def test_an_unknown_session_is_refused(self, db: SessionDB) -> None:
        with pytest.raises(UnknownSession):
            Agent(db, ScriptedClient()).run("Hello?", "nowhere")


class TestAnswer:
    def test_question_and_answer(self, db: SessionDB) -> None:
        client = ScriptedClient(says("It is done."))
        events = list(agent(db, client).run_turn("s", "Is it?"))
        assert isinstance(events[0], Stored)
        assert "".join(e.text for e in events if isinstance(e, TextPiece)) == "Itisdone."
        assert events[-1] == Ended("answered")
        assert transcript(db) == [("user", "Is it?"), ("assistant", "It is done.")]
        (request,) = client.requests
        assert request.model == "scripted-1"
        assert request.messages == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Is it?"},
        ]

    def test_instructions_go_to_the_model_and_not_into_the_store(self, db: SessionDB) -> None:
        client = ScriptedClient(says("Yes."))
        told = replace(agent(db, client), instructions="You are on Telegram.")
        list(told.run_turn("s", "Is it?"))
        assert client.requests[0].messages[0]["content"] == "Be brief.\n\nYou are on Telegram."
        assert (db.get_session("s") or {})["system_prompt"] == "Be brief."

    def test_every_step_is_written_under_the_lease(self, db: SessionDB) -> None:
        lease = db.take_lease("s", "the holder")
        client = ScriptedClient([Reply("", tool_calls=(CALL,))], says("Done."))
        holding = replace(agent(db, client, ECHO), fence=lease.token)
        assert list(holding.run_turn("s", "Do it."))[-1] == Ended("answered")
        assert [role for role, _ in transcript(db)] == ["user", "assistant", "tool", "assistant"]
        with pytest.raises(ConversationHeld, match="the holder"):
            list(agent(db, client).run_turn("s", "Me, too."))

    def test_the_question_is_stored_before_the_model_is_asked(self, db: SessionDB) -> None:
        seen: list[Any] = []
        client = ScriptedClient([lambda: seen.append(transcript(db)), *says("yes")])
        list(agent(db, client).run_turn("s", "hello"))
        assert seen == [[("user", "hello")]]

    def test_tokens_are_counted(self, db: SessionDB) -> None:
        usage = Usage(input_tokens=7, output_tokens=3, cache_read_tokens=2)
        client = ScriptedClient([Reply("ok", "stop", usage=usage, model="m-1")])
        list(agent(db, client).run_turn("s", "hello"))
        session = db.get_session("s")
        assert session is not None
        assert (session["input_tokens"], session["output_tokens"]) == (5, 3)
        assert session["cache_read_tokens"] == 2
        assert session["api_call_count"] == 1
        assert [row["model"] for row in db.get_model_usage("s")] == ["m-1"]
        assert db.get_messages("s")[-1]["token_count"] == 3

    def test_the_same_message_twice(self, db: SessionDB) -> None:
        client = ScriptedClient(says("one"), says("two"))
        for _ in range(2):
            list(agent(db, client).run_turn("s", "hello", external_id="m1"))
        assert [text for role, text in transcript(db) if role == "user"] == ["hello"]


class TestTools:
    def test_results_go_back_to_the_model(self, db: SessionDB) -> None:
        client = ScriptedClient([Reply("", "tool_calls", tool_calls=(CALL,))], says("It said hi."))
        events = list(agent(db, client, ECHO).run_turn("s", "say hi"))
        assert [e.call.name for e in events if isinstance(e, ToolStarted)] == ["echo"]
        assert [e.result for e in events if isinstance(e, ToolFinished)] == ["hi"]
        assert transcript(db) == [
            ("user", "say hi"),
            ("assistant", None),
            ("tool", "hi"),
            ("assistant", "It said hi."),
        ]
        assert client.requests[1].messages[-1] == {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "hi",
        }
        assert client.requests[0].tools[0]["function"]["name"] == "echo"

    @pytest.mark.parametrize(
        ("call", "said"),
        [
            (ToolCall("c", "unknown", "{}"), "There is no tool"),
            (ToolCall("c", "echo", "{oops"), "not valid JSON"),
            (ToolCall("c", "echo", "[1]"), "must be a JSON object"),
            (ToolCall("c", "fails", ""), "ZeroDivisionError"),
            (ToolCall("c", "odd", ""), "TypeError"),
        ],
    )
    def test_what_goes_wrong_is_told_to_the_model(
        self, db: SessionDB, call: ToolCall, said: str
    ) -> None:
        fails = Tool("fails", "", {}, lambda *_: 1 / 0)
        odd = Tool("odd", "", {}, lambda *_: object())
        client = ScriptedClient([Reply("", tool_calls=(call,))], says("sorry"))
        list(agent(db, client, ECHO, fails, odd).run_turn("s", "try"))
        assert said in transcript(db)[2][1]
        assert transcript(db)[-1] == ("assistant", "sorry")

    def test_a_turn_has_a_limit_of_steps(self, db: SessionDB) -> None:
        again = [Reply("", tool_calls=(CALL,))]
        client = ScriptedClient(*[again] * 3)
        looping = Agent(db, client, ToolRegistry(ECHO), most_steps=3)
        assert list(looping.run_turn("s", "loop"))[-1] == Ended("too many steps")
        assert [role for role, _ in transcript(db)] == ["user"] + ["assistant", "tool"] * 3

    def test_recall_of_other_sessions(self, db: SessionDB) -> None:
        db.create_session("old", "cli")
        db.append_message("old", "user", "the pangolin lives in the ledger")
        call = ToolCall("c", "session_search", '{"query": "pangolin"}')
        client = ScriptedClient([Reply("", tool_calls=(call,))], says("in the ledger"))
        list(Agent(db, client, default_tools()).run_turn("s", "where is it?"))
        assert "pangolin" in transcript(db)[2][1]


class TestInterruption:
    def test_what_was_said_is_kept(self, db: SessionDB) -> None:
        stop = threading.Event()
        client = ScriptedClient([TextPiece("half "), TextPiece("a sent"), stop.set, *says("never")])
        events = list(agent(db, client).run_turn("s", "go", interrupt=stop))
        assert events[-1] == Ended("interrupted")
        assert client.closed == 1
        stored = db.get_messages("s")[-1]
        assert (stored["content"][:11], stored["finish_reason"]) == ("half a sent", "interrupted")

    def test_ctrl_c_amid_a_reply(self, db: SessionDB) -> None:
        def interrupt() -> None:
            raise KeyboardInterrupt

        client = ScriptedClient([ReasoningPiece("hm"), TextPiece("so"), interrupt])
        with pytest.raises(KeyboardInterrupt):
            list(agent(db, client).run_turn("s", "go"))
        stored = db.get_messages("s")[-1]
        assert (stored["content"], stored["reasoning"]) == ("so", "hm")
        assert stored["finish_reason"] == "interrupted"

    def test_ctrl_c_amid_a_tool(self, db: SessionDB) -> None:
        def run(*_: Any) -> str:
            raise KeyboardInterrupt

        calls = (ToolCall("c1", "slow", "{}"), ToolCall("c2", "slow", "{}"))
        client = ScriptedClient([Reply("", tool_calls=calls)], says("going on"))
        slow = Tool("slow", "", {}, run)
        with pytest.raises(KeyboardInterrupt):
            list(agent(db, client, slow).run_turn("s", "go"))
        assert [m["tool_call_id"] for m in db.get_messages("s")[2:]] == ["c1", "c2"]
        assert list(agent(db, client, slow).run_turn("s", "and now?"))[-1] == Ended("answered")

    def test_an_iterator_that_is_closed(self, db: SessionDB) -> None:
        client = ScriptedClient([TextPiece("one"), TextPiece("two")])
        events = agent(db, client).run_turn("s", "go")
        next(events)
        next(events)
        events.close()  # type: ignore[attr-defined]
        assert transcript(db)[-1] == ("assistant", "one")
        assert client.closed == 1

    def test_a_tool_that_looks_up(self, db: SessionDB) -> None:
        stop = threading.Event()

        def run(_: Any, context: ToolContext) -> str:
            stop.set()
            return "stopped" if context.interrupt.wait(60) else "never"

        client = ScriptedClient([Reply("", tool_calls=(ToolCall("c1", "long", "{}"),))])
        long = Tool("long", "", {}, run)
        events = list(agent(db, client, long).run_turn("s", "go", interrupt=stop))
        assert events[-1] == Ended("interrupted")
        assert transcript(db)[-1] == ("tool", "stopped")

    def test_before_a_tool_runs(self, db: SessionDB) -> None:
        stop = threading.Event()
        calls = (CALL, ToolCall("c2", "stopping", "{}"), ToolCall("c3", "echo", "{}"))
        stopping = Tool("stopping", "", {}, lambda *_: stop.set() or "stopped")
        client = ScriptedClient([Reply("", tool_calls=calls)])
        events = list(agent(db, client, ECHO, stopping).run_turn("s", "go", interrupt=stop))
        assert events[-1] == Ended("interrupted")
        results = [text for role, text in transcript(db) if role == "tool"]
        assert results == ["hi", "stopped", "[Interrupted before it ran.]"]


class TestFailure:
    def test_an_outage_keeps_what_was_said(self, db: SessionDB) -> None:
        error = ModelUnavailable("broke off")
        client = ScriptedClient([TextPiece("It is "), error], says("It is done."))
        assert list(agent(db, client).run_turn("s", "Is it?"))[-1] == Ended("failed", error)
        assert db.get_messages("s")[-1]["finish_reason"] == "error"
        assert list(agent(db, client).answer("s"))[-1] == Ended("answered")

    def test_an_outage_before_a_word(self, db: SessionDB) -> None:
        client = ScriptedClient([ModelUnavailable("down")])
        list(agent(db, client).run_turn("s", "Is it?"))
        assert transcript(db) == [("user", "Is it?")]

    def test_after_a_crash_in_a_tool_the_session_can_continue(self, db: SessionDB) -> None:
        """As after a kill: the call is stored, its result is not."""
        db.append_message("s", "user", "go")
        db.append_message("s", "assistant", None, tool_calls=[CALL.as_message_part()])
        client = ScriptedClient(says("Where were we?"))
        list(agent(db, client, ECHO).run_turn("s", "hello?"))
        sent = client.requests[0].messages
        assert [message["role"] for message in sent] == [
            "system",
            "user",
            "assistant",
            "tool",
            "user",
        ]
        assert sent[3]["content"] == NO_RESULT
        assert "tool" not in [role for role, _ in transcript(db)]
