"""Interrupting a silent model from another thread."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.agent.clients.model_call import ModelCall, ReplyStream
from hermes_sessions.agent.clients.openai_compatible import OpenAICompatibleClient
from hermes_sessions.agent.clients.port import Event, RetryWait, TextPiece
from hermes_sessions.agent.compaction import CompactionInterrupted, compact
from hermes_sessions.agent.interrupts import Interrupt
from hermes_sessions.agent.tools.registry import ToolRegistry
from hermes_sessions.agent.turn import Agent, Ended, TurnEvent
from hermes_sessions_testing.scripted_model import ScriptedModel, failure, streamed
from tests.agent.scripted_client import ScriptedClient


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


@pytest.fixture
def agent(model: ScriptedModel) -> Iterator[Agent]:
    client = OpenAICompatibleClient(model.base_url, model="scripted-1")
    with SessionDB(":memory:") as db:
        db.create_session("s", "cli")
        yield Agent(db, client, ToolRegistry())
        client.close()


class Running:
    """A turn in a thread of its own, and what happened in it."""

    def __init__(self, events: Iterator[TurnEvent]) -> None:
        self.events: list[TurnEvent] = []
        self._happened = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(events,))
        self._thread.start()

    def _run(self, events: Iterator[TurnEvent]) -> None:
        for event in events:
            with self._happened:
                self.events.append(event)
                self._happened.notify_all()

    def wait_for(self, kind: type) -> None:
        with self._happened:
            assert self._happened.wait_for(
                lambda: any(isinstance(event, kind) for event in self.events), 60
            )

    def finish(self) -> TurnEvent:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.events[-1]


def test_a_model_that_never_begins(agent: Agent, model: ScriptedModel) -> None:
    model.add(streamed("never").held_by(model.gate()))
    interrupt = Interrupt()
    running = Running(agent.run_turn("s", "hello?", interrupt=interrupt))
    model.wait_for_requests(1)
    interrupt.set()
    assert running.finish() == Ended("interrupted")
    assert [m["role"] for m in agent.db.get_messages("s")] == ["user"]


def test_a_model_that_falls_silent(agent: Agent, model: ScriptedModel) -> None:
    model.say("Half of", " it", model.gate(), " never")
    interrupt = Interrupt()
    running = Running(agent.run_turn("s", "hello?", interrupt=interrupt))
    running.wait_for(TextPiece)
    while "it" not in "".join(e.text for e in running.events if isinstance(e, TextPiece)):
        running.wait_for(TextPiece)
    interrupt.set()
    interrupt.set()
    assert running.finish() == Ended("interrupted")
    stored = agent.db.get_messages("s")[-1]
    assert (stored["content"], stored["finish_reason"]) == ("Half of it", "interrupted")


def test_a_model_that_is_given_time(agent: Agent, model: ScriptedModel) -> None:
    model.add(failure(429, "slow down", retry_after="50"))
    interrupt = Interrupt()
    running = Running(agent.run_turn("s", "hello?", interrupt=interrupt))
    running.wait_for(RetryWait)
    interrupt.set()
    assert running.finish() == Ended("interrupted")
    (waiting,) = [event for event in running.events if isinstance(event, RetryWait)]
    assert (waiting.seconds, waiting.attempt, waiting.attempts) == (50, 2, 5)
    assert "(429)" in waiting.reason


def test_before_anything_happens(agent: Agent, model: ScriptedModel) -> None:
    model.say("never")
    interrupt = Interrupt()
    interrupt.set()
    assert list(agent.run_turn("s", "hello?", interrupt=interrupt))[-1] == Ended("interrupted")


def test_a_summary(agent: Agent, model: ScriptedModel) -> None:
    for number in range(12):
        agent.db.append_message("s", "user", f"question {number}")
        agent.db.append_message("s", "assistant", f"answer {number}")
    model.add(streamed("never").held_by(model.gate()))
    interrupt = Interrupt()

    def interrupting() -> None:
        model.wait_for_requests(1)
        interrupt.set()

    thread = threading.Thread(target=interrupting)
    thread.start()
    with pytest.raises(CompactionInterrupted, match="unchanged"):
        compact(agent.db, "s", agent.client, new_session_id="t", interrupt=interrupt)
    thread.join()
    assert agent.db.get_session("t") is None
    assert agent.db.get_compression_lock_holder("s") is None


def test_a_client_whose_events_only_its_own_thread_can_close(agent: Agent) -> None:
    interrupt = Interrupt()
    client = ScriptedClient([TextPiece("one"), interrupt.set, TextPiece("two"), TextPiece("no")])
    other = Agent(agent.db, client, ToolRegistry())
    assert list(other.run_turn("s", "go", interrupt=interrupt))[-1] == Ended("interrupted")
    assert agent.db.get_messages("s")[-1]["content"] == "onetwo"


def test_a_stream_that_is_closed_while_it_is_asked_for_more() -> None:
    """The caller has seen that it is open; then another thread closes it."""
    closing, go_on = threading.Event(), threading.Event()

    def events() -> Generator[Event]:
        try:
            yield TextPiece("one")
        finally:
            closing.set()
            assert go_on.wait(60)

    call = ModelCall()
    stream = ReplyStream(call, events())
    assert next(stream) == TextPiece("one")
    other = threading.Thread(target=stream.close)

    class Seen(threading.Event):
        def is_set(self) -> bool:
            if other.ident is not None:
                return super().is_set()
            other.start()
            assert closing.wait(60)
            return False

    call.is_shut = Seen()
    assert list(stream) == []
    go_on.set()
    other.join(60)
