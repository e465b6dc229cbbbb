"""A session from the terminal continues on a messenger."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.gateway.platforms.discord.adapter import DiscordAdapter
from hermes_sessions.gateway.platforms.slack.adapter import SlackAdapter
from hermes_sessions.gateway.platforms.telegram.adapter import TelegramAdapter
from hermes_sessions.gateway.runner import Gateway
from hermes_sessions_testing.fake_servers.discord.server import GENERAL
from hermes_sessions_testing.fake_servers.slack.workspace import GENERAL as SLACK_GENERAL
from hermes_sessions_testing.fake_servers.telegram.server import ANNA, BOT, GROUP
from tests.gateway.harness import PATIENCE, TelegramHarness
from tests.gateway.platforms.discord.harness import DiscordHarness
from tests.gateway.platforms.slack.harness import SlackHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[TelegramHarness]:
    with TelegramHarness(tmp_path) as harness:
        with harness.open_db() as db:
            db.create_session("s1", "cli")
            db.append_message("s1", "user", "The roof is green.")
            db.append_message("s1", "assistant", "I see.")
            db.set_session_title("s1", "Roof")
        yield harness


def state(harness: TelegramHarness) -> tuple[str, str | None]:
    with SessionDB(harness.home / "state.db") as db:
        found = db.get_handoff_state("s1") or {}
    return found["state"], found["error"]


def test_it_continues_in_the_home_channel(harness: TelegramHarness) -> None:
    harness.config["platforms"]["telegram"]["home_channel"] = ANNA["id"]
    running = harness.start()
    # Bots cannot write to a user who has never written to them.
    harness.telegram.write("Hello")
    harness.wait_for_replies(1)
    with harness.open_db() as db:
        assert db.request_handoff("s1", "telegram")
    assert running.gateway is not None
    running.gateway.beat_now()
    assert harness.wait_for_replies(2)[1] == "Continuing here: Roof"
    assert state(harness) == ("completed", None)
    harness.telegram.write("Which colour?")
    assert harness.wait_for_replies(3)[2] == "You said: Which colour?"
    told = [
        message["content"]
        for request in harness.model.requests
        for message in request.body["messages"]
    ]
    assert "The roof is green." in told
    with harness.open_db() as db:
        assert len(db.get_messages("s1")) == 4


def test_without_a_home_channel_it_stays_and_says_why(harness: TelegramHarness) -> None:
    with harness.open_db() as db:
        db.request_handoff("s1", "telegram")
    running = harness.start()
    assert running.gateway is not None
    running.gateway.handoffs.take_all()
    found, error = state(harness)
    assert found == "failed"
    assert "platforms.telegram.home_channel" in str(error)


def test_another_platform_waits_for_its_gateway(harness: TelegramHarness) -> None:
    with harness.open_db() as db:
        db.request_handoff("s1", "matrix")
    running = harness.start()
    assert running.gateway is not None
    assert running.gateway.handoffs.take_all() == 0
    assert state(harness) == ("pending", None)


# ── a home channel without messages ──────────────────────────────────────────────────────────


def taken(harness: Any, gateway: Gateway) -> dict[str, Any]:
    """Return what became of it, once the platform has told what the home channel is."""
    until = time.monotonic() + PATIENCE
    while True:
        gateway.handoffs.take_all()
        with harness.open_db() as db:
            found = db.get_handoff_state("s2") or {}
        if found["state"] != "pending":
            return dict(found)
        assert time.monotonic() < until
        time.sleep(0.01)


def hand_over(harness: Any, *, error: str | None = None) -> None:
    with harness.open_db() as db:
        db.create_session("s2", "cli")
        db.append_message("s2", "user", "The door is red.")
        db.append_message("s2", "assistant", "I see.")
        assert db.request_handoff("s2", harness.platform_name)
    running = harness.start()
    assert running.gateway is not None
    found = taken(harness, running.gateway)
    assert found["state"] == ("completed" if error is None else "failed")
    assert error is None or error in found["error"]


def goes_on(harness: Any) -> bool:
    """Tell whether what was written last became part of the session that was handed over."""
    with harness.open_db() as db:
        return len(db.get_messages("s2")) == 4


@pytest.fixture(params=["telegram", "discord", "slack"])
def group_harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made: Any
    if request.param == "telegram":
        made, home = TelegramHarness(tmp_path), GROUP["id"]
    elif request.param == "discord":
        made, home = DiscordHarness(tmp_path), GENERAL
    else:
        made, home = SlackHarness(tmp_path), SLACK_GENERAL.id
    made.platform_name = request.param
    made.config["platforms"][request.param]["home_channel"] = home
    with made as harness:
        yield harness


def is_answer(text: str) -> bool:
    """Tell whether it answers the question; in a shared conversation it says whose that is."""
    return text.startswith("You said: ") and text.endswith("Which colour?")


def ask(harness: Any) -> None:
    """Let Anna ask something in the home channel, and wait for the answer."""
    if harness.platform_name == "telegram":
        harness.telegram.write(f"@{BOT['username']} Which colour?", chat=GROUP)
        harness.telegram.wait_for(lambda: any(map(is_answer, harness.replies(GROUP["id"]))))
    elif harness.platform_name == "discord":
        harness.discord.write("Which colour?", channel=GENERAL, is_addressed=True)
        harness.discord.wait_for(lambda: any(map(is_answer, harness.replies(GENERAL))))
    else:
        harness.slack.write("Which colour?", place=SLACK_GENERAL, is_mention=True)
        harness.slack.wait_for(lambda: any(is_answer(sent.text) for sent in harness.slack.sent))


def test_a_shared_group_continues_it(group_harness: Any) -> None:
    group_harness.config["group_sessions_per_user"] = False
    hand_over(group_harness)

    ask(group_harness)

    assert goes_on(group_harness)


def test_the_only_allowed_user_continues_it(group_harness: Any) -> None:
    hand_over(group_harness)

    ask(group_harness)

    assert goes_on(group_harness)


def test_where_it_is_not_known_whose_it_is_it_stays(group_harness: Any) -> None:
    section = group_harness.config["platforms"][group_harness.platform_name]
    section["allowed_users"] = [*section["allowed_users"], "U0OTHER"]

    hand_over(group_harness, error="Send a message there, then hand off again.")


def test_it_waits_until_the_platform_has_told_what_the_home_channel_is(
    group_harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with group_harness.open_db() as db:
        db.create_session("s2", "cli")
        db.append_message("s2", "user", "The door is red.")
        assert db.request_handoff("s2", group_harness.platform_name)
    with monkeypatch.context() as patch:
        for kind in (TelegramAdapter, DiscordAdapter, SlackAdapter):
            patch.setattr(kind, "chat_type_of", lambda _adapter, _chat_id: None)
        running = group_harness.start()
        assert running.gateway is not None
        assert running.gateway.handoffs.take_all() == 0
        with group_harness.open_db() as db:
            assert (db.get_handoff_state("s2") or {})["state"] == "pending"
    assert taken(group_harness, running.gateway)["state"] == "completed"
