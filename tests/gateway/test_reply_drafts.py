"""Replies that are shown while they are written, over Telegram's protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from hermes_sessions import GatewayConfig, SessionDB, SessionStore
from hermes_sessions.gateway.reply_drafts import ABANDONED, Draft
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.fake_servers.telegram.server import Sent, bad_request, too_many
from hermes_sessions_testing.scripted_model import streamed
from tests.cli.harness import Hermes
from tests.gateway.fleet import GatewayCommand
from tests.gateway.harness import PATIENCE, TelegramHarness, echo, said
from tests.servers.stores import postgresql_place, postgresql_store

CURSOR = "▉"
FIRST = "The first half of what there is to say about it, "
SECOND = "and then the second half, which is just as long."


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TelegramHarness]:
    """A town without a gateway, on the database that is asked for."""
    streaming = {"enabled": True, "edit_interval": 0.01, "buffer_threshold": 1}
    if request.param == "sqlite":
        with TelegramHarness(tmp_path) as harness:
            harness.config["streaming"] = streaming
            yield harness
        return
    server = request.getfixturevalue(request.param)
    url = postgresql_place(server, "drafts").url()
    dsn, _, query = url.partition("?")
    with (
        postgresql_store(server, "drafts"),
        TelegramHarness(tmp_path, lambda: SessionDB.from_url(url)) as harness,
    ):
        harness.config["streaming"] = streaming
        harness.config["sessiondb"] = {
            "provider": "postgresql",
            "postgresql": {"dsn": dsn, "schema": query.removeprefix("schema=")},
        }
        yield harness


@pytest.mark.slow
@pytest.mark.parametrize("home", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize("is_stopped", [False, True], ids=["tried again", "stopped"])
def test_a_draft_of_a_process_that_was_killed(home: TelegramHarness, is_stopped: bool) -> None:
    """The next attempt continues in the same message; or the message says that it was abandoned."""
    gate = home.model.gate()
    home.model.respond = lambda request: (
        streamed(FIRST, gate, SECOND) if said(request) == "Go" else echo(request)
    )
    (home.home / "config.yaml").write_text(yaml.safe_dump(home.config), encoding="utf-8")
    killed = GatewayCommand(Hermes(home.home))
    after: GatewayCommand | None = None
    try:
        killed.wait_for_line("ready")
        home.telegram.write("Go")
        home.telegram.wait_for(lambda: home.telegram.sent)
        with home.open_db() as db:
            wait_until(lambda: bool(drafts_of(db)))
            killed.kill()
            if is_stopped:
                with SessionStore(
                    home.home / "sessions", GatewayConfig(write_sessions_json=False), db=db
                ) as store:
                    Mailboxes(store.engine).stop(drafts_of(db)[0][0], "stop")
        gate.open()
        home.model.respond = echo
        after = GatewayCommand(Hermes(home.home))
        expected = ABANDONED if is_stopped else "You said: Go"
        home.telegram.wait_for(lambda: home.telegram.sent[0].text == expected)
        assert len(home.telegram.sent) == 1
    finally:
        killed.kill()
        if after is not None:
            after.kill()


def drafts_of(db: SessionDB) -> list[tuple[int, int]]:
    with db.provider.read() as tx:
        return [
            (lane_id, turn_id)
            for lane_id, turn_id in tx.all(
                "SELECT lane_id, turn_id FROM outbox WHERE status = ?", ("draft",)
            )
        ]


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[TelegramHarness]:
    with TelegramHarness(tmp_path) as harness:
        harness.config["streaming"] = {
            "enabled": True,
            "edit_interval": 0.01,
            "buffer_threshold": 1,
        }
        harness.start()
        yield harness


def only(harness: TelegramHarness) -> Sent:
    (sent,) = harness.telegram.sent
    return sent


def test_a_draft_is_sent_changed_and_ends_without_the_cursor(harness: TelegramHarness) -> None:
    first, second = harness.model.gate(), harness.model.gate()
    harness.model.respond = lambda request: (
        streamed(FIRST, first, SECOND, second, " End.")
        if said(request) == "Go"
        else streamed("A talk")
    )
    harness.telegram.write("Go")
    first.wait_until_reached()
    harness.telegram.wait_for(lambda: harness.telegram.sent)
    assert CURSOR in only(harness).text
    first.open()
    second.wait_until_reached()
    harness.telegram.wait_for(lambda: SECOND in only(harness).text)
    second.open()
    harness.telegram.wait_for(lambda: only(harness).text == f"{FIRST}{SECOND} End.")
    assert CURSOR not in only(harness).text
    assert len(only(harness).earlier) >= 2


def test_too_many_changes_cost_drafts_and_never_the_reply(harness: TelegramHarness) -> None:
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed(FIRST, gate, SECOND) if said(request) == "Go" else streamed("A talk")
    )
    harness.telegram.write("Go")
    gate.wait_until_reached()
    harness.telegram.wait_for(lambda: harness.telegram.sent)
    harness.telegram.fail("editMessageText", too_many(1), too_many(1))
    gate.open()
    harness.telegram.wait_for(lambda: only(harness).text == f"{FIRST}{SECOND}")


def test_a_draft_that_is_gone_does_not_take_the_reply_with_it(harness: TelegramHarness) -> None:
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed(FIRST, gate, SECOND) if said(request) == "Go" else streamed("A talk")
    )
    harness.telegram.write("Go")
    gate.wait_until_reached()
    harness.telegram.wait_for(lambda: harness.telegram.sent)
    harness.telegram.fail(
        "editMessageText", *[bad_request("message to edit not found") for _ in range(2)]
    )
    gate.open()
    harness.telegram.wait_for(
        lambda: any(sent.text == FIRST + SECOND for sent in harness.telegram.sent)
    )


def test_what_was_stopped_does_not_look_as_if_more_were_to_come(harness: TelegramHarness) -> None:
    gate = harness.model.gate()
    harness.model.respond = lambda request: (
        streamed(FIRST, gate) if said(request) == "Go" else echo(request)
    )
    harness.telegram.write("Go")
    gate.wait_until_reached()
    harness.telegram.wait_for(lambda: harness.telegram.sent)
    harness.telegram.write("/stop")
    harness.telegram.wait_for(lambda: any("Stopped" in sent.text for sent in harness.telegram.sent))
    harness.telegram.wait_for(lambda: CURSOR not in harness.telegram.sent[0].text)
    assert harness.telegram.sent[0].text.strip() == FIRST.strip()


def test_what_is_about_to_be_left_is_not_replaced_when_the_clock_jumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, found, works = FrozenClock(), list[int](), Draft.leave
    with TelegramHarness(
        tmp_path, lambda: SessionDB(tmp_path / "state.db", clock=clock)
    ) as harness:
        harness.config["streaming"] = {
            "enabled": True,
            "edit_interval": 0.01,
            "buffer_threshold": 1,
        }
        gateway = harness.start().gateway
        assert gateway is not None

        async def leave(draft: Draft, *, is_over: bool) -> None:
            clock.advance(3600)
            found.append(await asyncio.to_thread(gateway.drafts.finish_left))
            await works(draft, is_over=is_over)

        monkeypatch.setattr(Draft, "leave", leave)
        gate = harness.model.gate()
        harness.model.respond = lambda _request: streamed(FIRST, gate)
        harness.telegram.write("Go")
        gate.wait_until_reached()
        with harness.open_db() as db:
            wait_until(lambda: bool(drafts_of(db)))
        harness.telegram.write("/stop")
        harness.telegram.wait_for(
            lambda: harness.telegram.sent and CURSOR not in harness.telegram.sent[0].text
        )
        assert harness.telegram.sent[0].text.strip() == FIRST.strip()
        assert found == [0]
