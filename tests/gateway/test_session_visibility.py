"""Users see and continue their own sessions only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions_testing.fake_servers.telegram.server import ANNA, BERT
from tests.gateway.harness import TelegramHarness

TEAM = {"id": -100300, "type": "supergroup", "title": "Team"}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[TelegramHarness]:
    with TelegramHarness(tmp_path) as harness:
        telegram = harness.config["platforms"]["telegram"]
        telegram["allowed_users"] = [ANNA["id"], BERT["id"]]
        telegram["require_mention"] = False
        yield harness


class Person:
    """A user who writes in one chat and waits for the answer."""

    def __init__(
        self,
        harness: TelegramHarness,
        user: dict[str, object],
        chat: dict[str, object] | None = None,
    ):
        self._harness, self._user, self._chat = harness, user, chat
        self._place = int(str((chat or user)["id"]))

    def say(self, text: str) -> str:
        before = len(self._harness.replies(self._place))
        self._harness.telegram.write(text, user=self._user, chat=self._chat)
        return self._harness.wait_for_replies(before + 1, self._place)[before]


def session_ids(harness: TelegramHarness) -> list[str]:
    with SessionDB(harness.home / "state.db") as db:
        return [session["id"] for session in db.list_sessions_rich(limit=100)]


def test_sessions_of_others_are_not_listed_found_or_resumed(harness: TelegramHarness) -> None:
    harness.start()
    anna, bert = Person(harness, dict(ANNA)), Person(harness, dict(BERT))
    anna.say("My secret plan")
    assert anna.say("/title Plans") == "Title: Plans"
    (annas,) = session_ids(harness)
    bert.say("Hello")
    (berts,) = set(session_ids(harness)) - {annas}

    assert annas not in bert.say("/sessions")
    assert bert.say("/search secret plan") == "No results."
    nothing = bert.say("/resume 20990101_000000_ffffffff")
    for name in (annas, annas[:-3], "Plans", "plans"):
        assert bert.say(f"/resume {name}") == nothing.replace("20990101_000000_ffffffff", name)
    assert annas not in bert.say("/title Plans")
    assert berts in bert.say("/status")
    assert annas in anna.say("/sessions")


def test_a_beginning_that_several_people_share_means_ones_own(harness: TelegramHarness) -> None:
    harness.start()
    anna, bert = Person(harness, dict(ANNA)), Person(harness, dict(BERT))
    anna.say("One")
    bert.say("Two")
    assert bert.say("/resume 20").startswith("Continuing")


def test_a_group_continues_only_its_own_conversations(harness: TelegramHarness) -> None:
    harness.config["group_sessions_per_user"] = False
    harness.start()
    anna, team = Person(harness, dict(ANNA)), Person(harness, dict(ANNA), TEAM)
    anna.say("My secret plan")
    (annas,) = session_ids(harness)
    team.say("Our plan")
    (ours,) = set(session_ids(harness)) - {annas}
    team.say("/new")
    team.say("Another plan")
    assert annas not in team.say("/sessions")
    assert "There is no session" in team.say(f"/resume {annas}")
    assert team.say("/search secret") == "No results."
    assert ours in team.say("/sessions")
    assert team.say(f"/resume {ours}").startswith("Continuing")
    assert "There is no session" in anna.say(f"/resume {ours}")
