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
from hermes_sessions.gateway.platforms.slack.mapping import Reader
from hermes_sessions.gateway.platforms.slack.socket_mode import SocketMode
from hermes_sessions.testing.slack_workspace import ANNA, GENERAL, Refusal, too_many
from tests.gateway.platforms.slack.fake_slack import SlackWorld
from tests.gateway.platforms.slack.harness import Scene, play


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
def test_slack_asks_for_another_socket(
    world: SlackWorld, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Which it does every few hours; nobody notices."""

    async def act(scene: Scene) -> None:
        for number in range(3):
            scene.server.write(f"before {number}")
            await scene.services.texts(2 * number + 1)
            scene.server.ask_to_reconnect(reason)
            scene.server.write(f"after {number}")
            await scene.services.texts(2 * number + 2)
        await scene.until(lambda: not scene.server.waiting)
        texts = [each.text for each in scene.services.accepted]
        assert list(dict.fromkeys(texts)) == [
            f"{word} {number}" for number in range(3) for word in ("before", "after")
        ]
        assert scene.adapter.is_connected

    play(world, act)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_what_is_being_taken_is_acknowledged_before_the_socket_is_left(
    world: SlackWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_mode, "_LEAVING_SECONDS", 60)
    asked = asyncio.Event()
    replaced = SocketMode._is_replaced

    async def noticed(mode: SocketMode, message: Mapping[str, Any]) -> bool:
        asked.set()
        return await replaced(mode, message)

    monkeypatch.setattr(SocketMode, "_is_replaced", noticed)

    async def act(scene: Scene) -> None:
        gate = scene.services.hold()
        scene.server.write("Hello")
        await scene.services.wait_for(lambda: scene.services.offered)
        scene.server.ask_to_reconnect()
        await asked.wait()
        for _ in range(50):  # enough for it to leave, if it did not wait
            await asyncio.sleep(0)
        assert scene.adapter.is_connected
        gate.set()
        assert await scene.hear(1) == ["Hello"]
        await scene.until(lambda: scene.server.opened == 2)
        scene.server.write("Again")
        assert await scene.hear(2) == ["Hello", "Again"]  # and "Hello" did not come twice

    play(world, act)


def test_a_socket_that_is_lost_while_a_message_is_taken(world: SlackWorld) -> None:
    """It comes again with its own id, and is acknowledged then."""

    async def act(scene: Scene) -> None:
        gate = scene.services.hold()
        ts = scene.server.write("Hello")
        await scene.services.wait_for(lambda: scene.services.offered)
        scene.server.drop_sockets()
        await scene.until(lambda: scene.server.opened == 2)
        gate.set()
        await scene.hear(2)
        assert {each.message_id for each in scene.services.accepted} == {ts}

    play(world, act)


def test_the_adapter_says_when_it_is_not_connected(
    world: SlackWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def act(scene: Scene) -> None:
        calls = scene.server.api.calls
        scene.server.api.refuse("apps.connections.open", Refusal("internal_error"))
        before = len(calls)
        scene.server.drop_connections()
        await scene.until(lambda: len(calls) >= before + 3)
        assert not scene.adapter.is_connected
        scene.server.api.refuse("apps.connections.open", too_many(0))
        before = len(calls)
        await scene.until(lambda: len(calls) >= before + 3)
        scene.server.api.allow("apps.connections.open")
        scene.server.write("Hello")
        assert await scene.hear(1) == ["Hello"]
        assert scene.adapter.is_connected

    play(world, act)
    assert "next try in 2 s" in caplog.text


def test_socket_mode_is_turned_off_meanwhile(
    world: SlackWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner is told, and it goes on when it is turned on again."""

    async def act(scene: Scene) -> None:
        scene.server.api.refuse("apps.connections.open", Refusal("forbidden_team"))
        before = len(scene.server.api.calls)
        scene.server.ask_to_reconnect("link_disabled")
        await scene.until(lambda: len(scene.server.api.calls) >= before + 2)
        scene.server.api.allow("apps.connections.open")
        scene.server.write("Hello")
        assert await scene.hear(1) == ["Hello"]

    play(world, act)
    assert "Socket Mode was turned off" in caplog.text
    assert any(
        each.levelno == logging.ERROR and "Is it turned on" in each.message
        for each in caplog.records
    )


def test_what_fails_is_offered_for_as_long_as_it_takes(world: SlackWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.services.fail_with(*[Unreachable("away")] * 20, *[RuntimeError("bug")] * 20)
        scene.server.write("patient")
        scene.server.write("next")
        assert await scene.hear(2) == ["patient", "next"]
        assert [each.text for each in scene.services.offered] == ["patient"] * 41 + ["next"]

    play(world, act)


def test_what_cannot_be_read_in_a_way_nobody_foresaw_stops_nobody(
    world: SlackWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(scene: Scene) -> None:
        read = Reader.read

        def fail(reader: Reader, payload: object) -> object:
            return 1 / 0 if "poison" in json.dumps(payload) else read(reader, payload)

        monkeypatch.setattr(Reader, "read", fail)
        scene.server.write("poison")
        scene.server.write("next")
        assert await scene.hear(1) == ["next"]
        assert scene.adapter.unreadable == 1

    play(world, act)


def test_a_message_is_worth_more_than_what_would_be_known_besides(
    world: SlackWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_directory: Directory, _letter: object) -> object:
        raise ZeroDivisionError("nobody thought of that")

    monkeypatch.setattr(Directory, "completed", fail)

    async def act(scene: Scene) -> None:
        scene.server.write("Hello")
        assert await scene.hear(1) == ["Hello"]

    play(world, act)


def test_frames_that_are_no_envelopes(world: SlackWorld) -> None:
    async def act(scene: Scene) -> None:
        for frame in (
            {},
            {"type": "hello"},
            {"type": "unheard_of"},
            {"envelope_id": 5, "type": "events_api", "payload": {}},
            {"envelope_id": "no payload", "type": "events_api"},
            {"envelope_id": "odd", "type": {}, "payload": {}},
            {"envelope_id": "list", "type": "events_api", "payload": []},
        ):
            scene.server.send_frame(frame)
        scene.server.write("Hello")
        assert await scene.hear(1) == ["Hello"]
        assert {"no payload", "list"} <= scene.server.acknowledged

    play(world, act)


def test_slash_commands_come_over_the_socket(world: SlackWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.server.type_command("new A title")
        scene.server.type_command("Hello", place=GENERAL)
        assert await scene.hear(2) == ["/new A title", "Hello"]
        private, channel = (each.source for each in scene.services.accepted)
        assert (private.chat_type, private.chat_id) == ("dm", ANNA.chat)
        assert (channel.chat_type, channel.chat_id) == ("channel", GENERAL.id)

    play(world, act)


def test_clicks_are_acknowledged(world: SlackWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.server.push({"type": "block_actions"}, kind="interactive")
        await scene.until(lambda: not scene.server.waiting)
        assert not scene.services.offered
        assert scene.adapter.unreadable == 0

    play(world, act)


def test_disconnecting_while_nothing_can_be_stored(world: SlackWorld) -> None:
    """Does not wait for it; it is not acknowledged, and comes again."""

    async def act(scene: Scene) -> None:
        scene.services.fail_with(*[Unreachable("away")] * 100_000)
        scene.server.write("Hello")
        await scene.services.wait_for(lambda: scene.services.offered)
        async with asyncio.timeout(60):
            await scene.adapter.disconnect()
        assert len(scene.server.waiting) == 1

    play(world, act)

    async def later(scene: Scene) -> None:
        assert await scene.hear(1) == ["Hello"]

    play(world, later)
