"""Socket Mode: sockets come and go, and an envelope is acknowledged when it is stored."""

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from hermes_sessions.gateway.platforms.port import Unreachable
from hermes_sessions.gateway.platforms.slack import socket_mode
from hermes_sessions.gateway.platforms.slack.directory import Directory
from hermes_sessions.gateway.platforms.slack.mapping import InboundReader
from hermes_sessions.gateway.platforms.slack.socket_mode import SocketMode
from hermes_sessions_testing.fake_servers.slack.workspace import ANNA, GENERAL, Refusal, too_many
from tests.gateway.platforms.slack.fake_slack import FakeSlack
from tests.gateway.platforms.slack.harness import AdapterHarness, run_adapter


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
def test_slack_asks_for_another_socket(
    messenger: FakeSlack, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Which it does every few hours; nobody notices."""

    async def act(harness: AdapterHarness) -> None:
        for number in range(3):
            harness.server.write(f"before {number}")
            await harness.services.texts(2 * number + 1)
            harness.server.ask_to_reconnect(reason)
            harness.server.write(f"after {number}")
            await harness.services.texts(2 * number + 2)
        await harness.until(lambda: not harness.server.waiting)
        texts = [each.text for each in harness.services.accepted]
        assert list(dict.fromkeys(texts)) == [
            f"{word} {number}" for number in range(3) for word in ("before", "after")
        ]
        assert harness.adapter.is_connected

    run_adapter(messenger, act)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_what_is_being_taken_is_acknowledged_before_the_socket_is_left(
    messenger: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_mode, "_CLOSE_SECONDS", 60)
    asked = asyncio.Event()
    replaced = SocketMode._wants_new_socket

    async def noticed(mode: SocketMode, message: Mapping[str, Any]) -> bool:
        asked.set()
        return await replaced(mode, message)

    monkeypatch.setattr(SocketMode, "_wants_new_socket", noticed)

    async def act(harness: AdapterHarness) -> None:
        gate = harness.services.hold()
        harness.server.write("Hello")
        await harness.services.wait_for(lambda: harness.services.offered)
        harness.server.ask_to_reconnect()
        await asked.wait()
        for _ in range(50):  # enough for it to leave, if it did not wait
            await asyncio.sleep(0)
        assert harness.adapter.is_connected
        gate.set()
        assert await harness.hear(1) == ["Hello"]
        await harness.until(lambda: harness.server.opened == 2)
        harness.server.write("Again")
        assert await harness.hear(2) == ["Hello", "Again"]  # and "Hello" did not come twice

    run_adapter(messenger, act)


def test_a_socket_that_is_lost_while_a_message_is_taken(messenger: FakeSlack) -> None:
    """It comes again with its own id, and is acknowledged then."""

    async def act(harness: AdapterHarness) -> None:
        gate = harness.services.hold()
        ts = harness.server.write("Hello")
        await harness.services.wait_for(lambda: harness.services.offered)
        harness.server.drop_sockets()
        await harness.until(lambda: harness.server.opened == 2)
        gate.set()
        await harness.hear(2)
        assert {each.message_id for each in harness.services.accepted} == {ts}

    run_adapter(messenger, act)


def test_the_adapter_says_when_it_is_not_connected(
    messenger: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def act(harness: AdapterHarness) -> None:
        calls = harness.server.api.calls
        harness.server.api.refuse("apps.connections.open", Refusal("internal_error"))
        before = len(calls)
        harness.server.drop_connections()
        await harness.until(lambda: len(calls) >= before + 3)
        assert not harness.adapter.is_connected
        harness.server.api.refuse("apps.connections.open", too_many(0))
        before = len(calls)
        await harness.until(lambda: len(calls) >= before + 3)
        harness.server.api.allow("apps.connections.open")
        harness.server.write("Hello")
        assert await harness.hear(1) == ["Hello"]
        assert harness.adapter.is_connected

    run_adapter(messenger, act)
    assert "retrying in 2 s" in caplog.text


def test_socket_mode_is_turned_off_meanwhile(
    messenger: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner is told, and it goes on when it is turned on again."""

    async def act(harness: AdapterHarness) -> None:
        harness.server.api.refuse("apps.connections.open", Refusal("forbidden_team"))
        before = len(harness.server.api.calls)
        harness.server.ask_to_reconnect("link_disabled")
        await harness.until(lambda: len(harness.server.api.calls) >= before + 2)
        harness.server.api.allow("apps.connections.open")
        harness.server.write("Hello")
        assert await harness.hear(1) == ["Hello"]

    run_adapter(messenger, act)
    assert "Socket Mode was turned off" in caplog.text
    assert any(
        each.levelno == logging.ERROR and "Turn it on" in each.message for each in caplog.records
    )


def test_what_fails_is_offered_for_as_long_as_it_takes(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.services.fail_with(*[Unreachable("away")] * 20, *[RuntimeError("bug")] * 20)
        harness.server.write("patient")
        harness.server.write("next")
        assert await harness.hear(2) == ["patient", "next"]
        assert [each.text for each in harness.services.offered] == ["patient"] * 41 + ["next"]

    run_adapter(messenger, act)


def test_what_cannot_be_read_in_a_way_nobody_foresaw_stops_nobody(
    messenger: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(harness: AdapterHarness) -> None:
        read = InboundReader.read

        def fail(reader: InboundReader, payload: object) -> object:
            return 1 / 0 if "poison" in json.dumps(payload) else read(reader, payload)

        monkeypatch.setattr(InboundReader, "read", fail)
        harness.server.write("poison")
        harness.server.write("next")
        assert await harness.hear(1) == ["next"]
        assert harness.adapter.unreadable == 1

    run_adapter(messenger, act)


def test_a_message_is_worth_more_than_what_would_be_known_besides(
    messenger: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_directory: Directory, _letter: object) -> object:
        raise ZeroDivisionError("nobody thought of that")

    monkeypatch.setattr(Directory, "with_names", fail)

    async def act(harness: AdapterHarness) -> None:
        harness.server.write("Hello")
        assert await harness.hear(1) == ["Hello"]

    run_adapter(messenger, act)


def test_frames_that_are_no_envelopes(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        for frame in (
            {},
            {"type": "hello"},
            {"type": "unheard_of"},
            {"envelope_id": 5, "type": "events_api", "payload": {}},
            {"envelope_id": "no payload", "type": "events_api"},
            {"envelope_id": "odd", "type": {}, "payload": {}},
            {"envelope_id": "list", "type": "events_api", "payload": []},
        ):
            harness.server.send_frame(frame)
        harness.server.write("Hello")
        assert await harness.hear(1) == ["Hello"]
        assert {"no payload", "list"} <= harness.server.acknowledged

    run_adapter(messenger, act)


def test_slash_commands_come_over_the_socket(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.type_command("new A title")
        harness.server.type_command("Hello", place=GENERAL)
        assert await harness.hear(2) == ["/new A title", "Hello"]
        private, channel = (each.source for each in harness.services.accepted)
        assert (private.chat_type, private.chat_id) == ("dm", ANNA.chat)
        assert (channel.chat_type, channel.chat_id) == ("channel", GENERAL.id)

    run_adapter(messenger, act)


def test_clicks_are_acknowledged(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.server.push({"type": "block_actions"}, kind="interactive")
        await harness.until(lambda: not harness.server.waiting)
        assert not harness.services.offered
        assert harness.adapter.unreadable == 0

    run_adapter(messenger, act)


def test_disconnecting_while_nothing_can_be_stored(messenger: FakeSlack) -> None:
    """Does not wait for it; it is not acknowledged, and comes again."""

    async def act(harness: AdapterHarness) -> None:
        harness.services.fail_with(*[Unreachable("away")] * 100_000)
        harness.server.write("Hello")
        await harness.services.wait_for(lambda: harness.services.offered)
        async with asyncio.timeout(60):
            await harness.adapter.disconnect()
        assert len(harness.server.waiting) == 1

    run_adapter(messenger, act)

    async def later(harness: AdapterHarness) -> None:
        assert await harness.hear(1) == ["Hello"]

    run_adapter(messenger, later)
