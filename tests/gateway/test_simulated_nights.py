"""The same for a real process: ``hermes gateway run`` through nights that pass in seconds.

Conversations that end after inactivity and every day, an hour that there is twice, one that does
not exist, and a message that kills its gateway whenever it is tried.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions_testing.fake_servers.telegram.server import ANNA, BERT
from hermes_sessions_testing.scripted_model import Answer, RecordedRequest, streamed
from tests.cli.harness import Hermes
from tests.gateway.faketime_clock import FaketimeClock
from tests.gateway.fleet import GatewayCommand
from tests.gateway.harness import PATIENCE, TelegramHarness, echo, said

BERLIN = ZoneInfo("Europe/Berlin")
#: The evening before clocks are put back, from three to two.
AUTUMN = datetime(2026, 10, 24, 20, tzinfo=BERLIN)
#: The evening before they are put forward, from two to three.
SPRING = datetime(2027, 3, 27, 20, tzinfo=BERLIN)


class Nights:
    """A town whose gateway is a process with a clock of its own."""

    def __init__(self, harness: TelegramHarness, clock: FaketimeClock) -> None:
        self.harness, self.clock = harness, clock
        self._gateway: GatewayCommand | None = None

    def start(self) -> None:
        home = self.harness.home
        (home / "config.yaml").write_text(yaml.safe_dump(self.harness.config), encoding="utf-8")
        self._gateway = GatewayCommand(Hermes(home), **self.clock.environ)
        self._gateway.wait_for_line("ready: telegram")

    def kill(self) -> None:
        if self._gateway is not None:
            self._gateway.kill()

    def stop(self) -> int:
        assert self._gateway is not None
        self._gateway.signal(signal.SIGTERM)
        return self._gateway.wait()

    def say(self, moment: datetime, text: str, user: Any = ANNA) -> str:
        """Say something at a moment; return the answer."""
        self.clock.jump(moment)
        before = len(self.harness.replies(user["id"]))
        self.harness.telegram.write(text, user=user)
        return self.harness.wait_for_replies(before + 1, user["id"])[before]

    def wait_until_recorded(self) -> None:
        """Return when it is stored that everything was sent: a gateway that is killed before that
        does not know, and the next one sends it again.
        """
        with self.harness.open_db() as db:
            outbox = Outbox(db.store, "default")
            self._wait_until(lambda: outbox.counts().keys() <= {"sent"})

    def wait_for_end(self, moment: datetime, user: Any) -> None:
        """Return when all sessions of a user have ended by themselves."""
        self.clock.jump(moment)
        self._wait_until(lambda: all(row["ended_at"] is not None for row in self.sessions(user)))

    def sessions(self, user: Any) -> list[dict[str, Any]]:
        with self.harness.open_db() as db:
            found = list(db.list_sessions_rich(limit=100))
        return [row for row in found if row["user_id"] == str(user["id"])]

    @staticmethod
    def _wait_until(is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < until
            time.sleep(0.1)


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    with TelegramHarness(tmp_path / "home") as harness:
        harness.home.mkdir()
        harness.config["platforms"]["telegram"]["allowed_users"] = ["*"]
        harness.config["gateway"] = {
            "finalize_turn": False,
            "expiry_first_pass": 0.5,
            "expiry_interval": 0.5,
        }
        harness.config["session_reset"] = {
            "mode": "both",
            "at_hour": 2,
            "idle_minutes": 180,
            "timezone": "Europe/Berlin",
        }
        nights = Nights(harness, FaketimeClock(tmp_path, AUTUMN))
        try:
            yield nights
        finally:
            nights.kill()


def hours(evening: datetime, hour: float) -> datetime:
    """So many hours after an evening has begun, as they pass and whatever clocks say."""
    return datetime.fromtimestamp(evening.timestamp() + hour * 3600, BERLIN)


BEGINS_ANEW = "This is a new conversation, because "


@pytest.mark.slow
def test_nights_in_which_clocks_change(nights: Nights) -> None:
    nights.start()
    nights.say(AUTUMN, "Good evening")
    nights.say(AUTUMN, "Good evening", BERT)
    assert nights.say(hours(AUTUMN, 2.7), "Still awake") == "You said: Still awake"
    # Bert has said nothing for more than three hours.
    nights.wait_for_end(hours(AUTUMN, 3.3), BERT)
    assert nights.say(hours(AUTUMN, 5), "Late") == "You said: Late"
    assert f"{hours(AUTUMN, 6.5):%H:%M} {hours(AUTUMN, 7.5):%H:%M}" == "02:30 02:30"
    two = nights.say(hours(AUTUMN, 6.5), "Is it two?")
    assert two.startswith(f"{BEGINS_ANEW}of the daily reset.")
    assert nights.say(hours(AUTUMN, 7.5), "And again?") == "You said: And again?"
    assert nights.say(hours(AUTUMN, 9), "Hm") == "You said: Hm", "there is one such moment a day"
    morning = nights.say(hours(AUTUMN, 14), "Good morning", BERT)
    assert morning.startswith(f"{BEGINS_ANEW}there were no messages for a while.")
    assert [len(nights.sessions(user)) for user in (ANNA, BERT)] == [2, 2]

    # Half a year later, and the same process.
    nights.wait_for_end(SPRING, ANNA)
    nights.say(SPRING, "Good evening")
    assert nights.say(hours(SPRING, 2.7), "Still awake") == "You said: Still awake"
    assert nights.say(hours(SPRING, 5.3), "Late") == "You said: Late"
    assert f"{hours(SPRING, 5.8):%H:%M} {hours(SPRING, 6.2):%H:%M}" == "01:48 03:12"
    three = nights.say(hours(SPRING, 6.2), "Is it three?")
    assert three.startswith(f"{BEGINS_ANEW}of the daily reset.")
    assert nights.say(hours(SPRING, 8.5), "Hm") == "You said: Hm"
    assert nights.stop() == 0


@pytest.mark.slow
@pytest.mark.fault(
    "A message kills its gateway whenever it is tried",
    "It is given up after the third time; the next message is answered",
    on="sqlite",
)
def test_a_message_that_kills_its_gateway_costs_one_conversation(nights: Nights) -> None:
    harness, moment = nights.harness, AUTUMN
    gates = [harness.model.gate() for _ in range(3)]
    attempts = iter(gates)

    def respond(request: RecordedRequest) -> Answer | None:
        if said(request) == "Loop for ever":
            return streamed("for ever", next(attempts))
        return echo(request)

    harness.model.respond = respond
    nights.start()
    nights.say(moment, "Hello")
    nights.wait_until_recorded()
    harness.telegram.write("Loop for ever")
    for gate in gates:
        gate.wait_until_reached()
        nights.kill()
        moment += timedelta(minutes=10)
        nights.clock.jump(moment)
        nights.start()
    assert "I gave up" in harness.wait_for_replies(2)[1]
    assert nights.say(moment, "Something else").endswith("You said: Something else")
    assert len(nights.sessions(ANNA)) == 2
    assert nights.stop() == 0
