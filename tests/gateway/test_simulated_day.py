"""A night and a day in seconds, with the clock of the whole gateway in the test's hands.

Resets after inactivity and every day, an hour that does not exist, expiry, and a message that
never ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.agent.turn import Agent
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.fake_servers.telegram.server import ANNA, BERT
from tests.gateway.harness import TelegramHarness

BERLIN = ZoneInfo("Europe/Berlin")
CARL = {"id": 9, "is_bot": False, "first_name": "Carl"}
#: The evening before clocks are put forward, at two.
EVENING = datetime(2026, 3, 28, 20, tzinfo=BERLIN).timestamp()
STEP = timedelta(minutes=30).total_seconds()


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(EVENING)


@pytest.fixture
def harness(tmp_path: Path, clock: FrozenClock) -> Iterator[TelegramHarness]:
    with TelegramHarness(
        tmp_path, lambda: SessionDB(tmp_path / "state.db", clock=clock)
    ) as harness:
        harness.config["platforms"]["telegram"]["allowed_users"] = ["*"]
        harness.config["gateway"] = {"finalize_turn": False}
        harness.config["session_reset"] = {
            "mode": "both",
            "at_hour": 2,
            "idle_minutes": 180,
            "timezone": "Europe/Berlin",
        }
        yield harness


class Day:
    """Half an hour after the other, in which the gateway does what it does by itself."""

    def __init__(self, harness: TelegramHarness, clock: FrozenClock) -> None:
        self._harness, self._clock = harness, clock
        self._running = harness.start()

    @property
    def now(self) -> str:
        return f"{datetime.fromtimestamp(self._clock(), BERLIN):%d %H:%M}"

    def until(self, moment: str) -> None:
        while self.now != moment:
            self._clock.advance(STEP)
            assert self._running.gateway is not None
            self._running.gateway.watcher.run_pass()

    def say(self, text: str, user: Any = ANNA) -> str:
        before = len(self._harness.replies(user["id"]))
        self._harness.telegram.write(text, user=user)
        return self._harness.wait_for_replies(before + 1, user["id"])[before]


def sessions_of(harness: TelegramHarness, user: Any) -> list[dict[str, Any]]:
    with harness.open_db() as db:
        found = list(db.list_sessions_rich(limit=100))
    return [row for row in found if row["user_id"] == str(user["id"])]


def test_a_night_in_which_clocks_are_put_forward(
    harness: TelegramHarness, clock: FrozenClock
) -> None:
    day = Day(harness, clock)
    day.say("Good evening")
    day.say("Good evening", BERT)
    day.until("28 23:00")
    # Three hours are not more than three hours.
    assert day.say("Still awake") == "You said: Still awake"
    day.until("28 23:30")
    (berts,) = sessions_of(harness, BERT)
    assert berts["ended_at"] is not None, "it ended without a message"
    day.until("29 01:30")
    assert day.say("Cannot sleep") == "You said: Cannot sleep"
    # Half an hour later it is three: two o'clock has been, and there was no such hour.
    day.until("29 03:00")
    morning = day.say("Is it morning?")
    assert morning.startswith("This is a new conversation, because of the daily reset.")
    assert day.say("And again") == "You said: And again"
    day.until("29 05:30")
    assert day.say("Hm") == "You said: Hm", "there is one such moment a day"
    day.until("29 09:00")
    answer = day.say("Good morning", BERT)
    assert answer.startswith(
        "This is a new conversation, because there were no messages for a while."
    )
    assert len(sessions_of(harness, BERT)) == 2
    first, second = sorted(sessions_of(harness, ANNA), key=lambda row: float(row["started_at"]))
    assert (first["end_reason"], second["ended_at"] is None) == ("session_reset", False)


def test_a_message_that_never_ends_costs_one_conversation(
    harness: TelegramHarness, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = Agent.run_turn

    def run_turn(agent: Agent, session_id: str, content: Any, **options: Any) -> Any:
        if content == "Loop for ever":
            raise RecursionError("too deep")
        return works(agent, session_id, content, **options)

    monkeypatch.setattr(Agent, "run_turn", run_turn)
    day = Day(harness, clock)
    day.say("Hello", CARL)
    assert "I gave up" in day.say("Loop for ever", CARL)
    day.until("28 21:00")
    assert day.say("Something else", CARL).endswith("You said: Something else")
    assert len(sessions_of(harness, CARL)) == 2
    assert day.say("Hello") == "You said: Hello"
