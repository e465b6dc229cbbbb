"""Long turns: notices to their users, and only elapsed time counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.lifecycle.mailboxes import Mailboxes, TurnEnding
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.harness import TelegramHarness


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def harness(tmp_path: Path, clock: FrozenClock) -> Iterator[TelegramHarness]:
    with TelegramHarness(
        tmp_path, lambda: SessionDB(tmp_path / "state.db", clock=clock)
    ) as harness:
        yield harness


def test_a_long_turn_says_that_it_is_still_running(harness: TelegramHarness) -> None:
    running = harness.start()
    assert running.gateway is not None
    watch = running.take_stopwatch()
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed(gate, "Done.")
    harness.telegram.write("Think")
    gate.wait_until_reached()
    watch.advance(179)
    running.gateway.beat_now()
    watch.advance(2)
    running.gateway.beat_now()
    assert harness.wait_for_replies(1) == ["Still working… (3 min)"]
    gate.open()
    assert harness.wait_for_replies(2)[1] == "Done."


def test_a_turn_in_which_nothing_happens_is_warned_of_and_then_ended(
    harness: TelegramHarness,
) -> None:
    harness.config["agent"]["gateway_notify_interval"] = 0
    running = harness.start()
    assert running.gateway is not None
    watch = running.take_stopwatch()
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed(gate, "Done.")
    harness.telegram.write("Think")
    gate.wait_until_reached()
    watch.advance(901)
    running.gateway.beat_now()
    assert harness.wait_for_replies(1)[0].startswith("Nothing has happened for a while.")
    watch.advance(900)
    running.gateway.beat_now()
    assert harness.wait_for_replies(2)[1].startswith("Nothing happened for too long, so I stopped.")


@pytest.mark.parametrize("hours", [0.1, 0.3, 24])
def test_a_turn_continues_when_the_clock_jumps(
    harness: TelegramHarness, clock: FrozenClock, hours: float
) -> None:
    """A laptop slept, or a clock was set: no time has passed for the turn."""
    running = harness.start()
    assert running.gateway is not None
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed(gate, "Done.")
    harness.telegram.write("Think")
    gate.wait_until_reached()
    clock.advance(hours * 3600)
    running.gateway._beat_once()
    gate.open()
    assert harness.wait_for_replies(1) == ["Done."]
    assert running.stop() is True
    assert harness.replies() == ["Done."]


def test_the_end_of_a_turn_is_stored_later_although_the_clock_jumps(
    harness: TelegramHarness, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is away for a moment, and the model is not asked again for that."""
    works, failures = Mailboxes.finish, [StoreUnavailable("the line was cut")]

    def finish(mailboxes: Mailboxes, *given: Any, **options: Any) -> TurnEnding:
        if failures:
            clock.advance(days=1)
            raise failures.pop()
        return works(mailboxes, *given, **options)

    monkeypatch.setattr(Mailboxes, "finish", finish)
    running = harness.start()
    harness.telegram.write("Think")
    assert harness.wait_for_replies(1) == ["You said: Think"]
    assert running.stop() is True
    with harness.open_db() as db, db.store.provider.read() as tx:
        assert tx.all("SELECT outcome, attempt FROM turns") == [("completed", 1)]
