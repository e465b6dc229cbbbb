"""Before an automatic reset, the agent writes down what matters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.agent.clients.port import TextPiece
from hermes_sessions.agent.turn import Agent
from hermes_sessions.gateway import turn_runner
from hermes_sessions.gateway.turn_runner import INSTRUCTION
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.harness import PATIENCE, TelegramHarness, echo


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def harness(tmp_path: Path, clock: FrozenClock) -> Iterator[TelegramHarness]:
    with TelegramHarness(
        tmp_path, lambda: SessionDB(tmp_path / "state.db", clock=clock)
    ) as harness:
        yield harness


def rows(harness: TelegramHarness) -> list[tuple[str, str]]:
    with harness.open_db() as db:
        (session,) = db.list_sessions_rich()
        assert session["ended_at"] is not None
        return [(row["role"], row["content"]) for row in db.get_messages(session["id"])]


def expire(harness: TelegramHarness, clock: FrozenClock) -> None:
    running = harness.start()
    harness.telegram.write("My dog is called Rex")
    harness.wait_for_replies(1)
    running.wait_until_idle()
    harness.model.respond = lambda request: (
        streamed("The dog is called Rex.") if INSTRUCTION in str(request.body) else echo(request)
    )
    clock.advance(days=2)
    assert running.gateway is not None
    assert running.gateway.watcher.run_pass().finalized == ["agent:main:telegram:dm:7"]
    running.stop()


def test_the_agent_saves_what_matters_and_sends_nothing(
    harness: TelegramHarness, clock: FrozenClock
) -> None:
    expire(harness, clock)
    assert rows(harness)[-1] == ("assistant", "The dog is called Rex.")
    assert len(harness.replies()) == 1
    with harness.open_db() as db:
        (hit,) = [hit for hit in db.search("dog called Rex").hits if hit.role == "assistant"][:1]
        assert hit.snippet


def test_it_can_be_turned_off(harness: TelegramHarness, clock: FrozenClock) -> None:
    harness.config["gateway"] = {"finalize_turn": False}
    expire(harness, clock)
    assert [role for role, _ in rows(harness)] == ["user", "assistant"]


def test_a_model_that_says_nothing_more_is_not_waited_for(
    harness: TelegramHarness, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_said, works = threading.Event(), Agent.run_turn

    def run_turn(agent: Agent, *given: Any, **options: Any) -> Iterator[Any]:
        for event in works(agent, *given, **options):
            if isinstance(event, TextPiece):
                is_said.set()
            yield event

    class TimeIsUp(threading.Thread):
        """A timer that goes off as soon as the model has said something."""

        def __init__(self, _seconds: float, then: Callable[[], None]) -> None:
            super().__init__(target=lambda: is_said.wait(PATIENCE) and then())

        def cancel(self) -> None:
            """It is too late for that."""

    harness.config["gateway"] = {"finalize_timeout": 0.2}
    running = harness.start()
    harness.telegram.write("Hello")
    harness.wait_for_replies(1)
    running.wait_until_idle()
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed("Half", gate)
    monkeypatch.setattr(Agent, "run_turn", run_turn)
    monkeypatch.setattr(turn_runner, "threading", SimpleNamespace(Timer=TimeIsUp))
    clock.advance(days=2)
    assert running.gateway is not None
    running.gateway.watcher.run_pass()
    # If the turn took longer than that, it ends after the pass.
    for thread in threading.enumerate():
        if thread.name.startswith("saving "):
            thread.join(PATIENCE)
            assert not thread.is_alive()
    running.gateway.watcher.run_pass()
    running.stop()
    assert ("assistant", "Half") in rows(harness)
