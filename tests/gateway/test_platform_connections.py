"""A failure of one platform, at the start or at the end, does not affect the others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from hermes_sessions.errors import ConfigError, StoreUnavailable
from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.overview import PlatformReports, overview
from hermes_sessions.gateway.platform_connections import Connections
from hermes_sessions.gateway.platforms.port import (
    Adapter,
    Limits,
    LoginRefused,
    Services,
    Unreachable,
)
from hermes_sessions_testing.fake_servers.slack.server import SlackServer
from hermes_sessions_testing.fake_servers.slack.workspace import Refusal
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.harness import TelegramHarness


@pytest.fixture
def harness(short_path: Path) -> Iterator[TelegramHarness]:
    with TelegramHarness(short_path) as harness:
        yield harness


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    server = SlackServer(mode="socket")
    yield server
    server.close()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def slack_section(slack: SlackServer, **changes: object) -> dict[str, object]:
    return {
        "token": slack.token,
        "app_token": slack.app_token,
        "base_url": slack.base_url,
        **changes,
    }


def platforms_of(harness: TelegramHarness) -> dict[str, str]:
    """What the store says about the platforms of the gateway that runs."""
    with harness.open_db() as db:
        (said,) = overview(db.store, "default").platforms.values()
    return said


# ── a whole gateway ───────────────────────────────────────────────────────────────────────────


def test_a_wrong_token_is_reported_and_the_others_continue(
    harness: TelegramHarness, slack: SlackServer, caplog: pytest.LogCaptureFixture
) -> None:
    harness.config["platforms"]["slack"] = slack_section(slack, token="xoxb-000000-wrong")
    harness.start()
    harness.telegram.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    said = platforms_of(harness)
    assert said["telegram"] == "connected"
    assert said["slack"].startswith("disabled: ")
    assert "platforms.slack.token" in said["slack"]
    assert any("slack is disabled" in record.getMessage() for record in caplog.records)
    assert "xoxb-000000-wrong" not in caplog.text + said["slack"]


def test_a_port_that_is_taken_ends_only_what_needs_it(
    harness: TelegramHarness, slack: SlackServer, silent_port: int
) -> None:
    harness.config["platforms"]["slack"] = slack_section(
        slack, app_token=None, signing_secret="0" * 32, webhook={"port": silent_port}
    )
    harness.start()
    harness.telegram.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    assert "cannot listen on" in platforms_of(harness)["slack"]


def test_a_platform_that_never_answers_blocks_neither_others_nor_the_stop(
    harness: TelegramHarness, slack: SlackServer, silent_port: int
) -> None:
    base_url = f"http://127.0.0.1:{silent_port}/api/"
    harness.config["platforms"]["slack"] = slack_section(slack, base_url=base_url)
    running = harness.begin()
    harness.telegram.write("Hello")
    assert harness.wait_for_replies(1) == ["You said: Hello"]
    assert running.stop() is True


def test_what_is_connected_later_is_said(harness: TelegramHarness, slack: SlackServer) -> None:
    harness.config["platforms"]["slack"] = slack_section(slack)
    slack.api.refuse("auth.test", Refusal("fatal_error", status=503))
    running = harness.start()
    assert platforms_of(harness)["slack"].startswith("not connected: ")
    slack.api.allow("auth.test")
    slack.wait_for(lambda: slack.opened > 0)
    assert running.gateway is not None
    while platforms_of(harness)["slack"] != "connected":
        running.gateway.beat_now()
    running.stop()
    with harness.open_db() as db:
        assert overview(db.store, "default").platforms == {}


# ── one after the other ───────────────────────────────────────────────────────────────────────


class Scripted(Adapter):
    """A messenger that does at each connection what it is told."""

    name: ClassVar[str] = "scripted"
    limits: ClassVar[Limits] = Limits(text=100)

    def __init__(self, *outcomes: Exception | None, hangs: bool = False) -> None:
        self.outcomes = list(outcomes)
        self.hangs = hangs
        self.tries = self.ends = 0
        self._is_connected = False

    async def connect(self, services: Services) -> None:
        self.tries += 1
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome
        if self.hangs:
            await asyncio.Event().wait()
        self._is_connected = True

    async def disconnect(self) -> None:
        self.ends += 1
        if self.hangs:
            await asyncio.Event().wait()
        self._is_connected = False
        if self.outcomes:
            raise RuntimeError("unexpected")

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    async def send(self, target: Target, text: str, *, key: str) -> str:
        raise NotImplementedError


async def at_once(_seconds: float) -> None:
    await asyncio.sleep(0)


async def nothing() -> None:
    """Do nothing for a late platform."""


def made(*adapters: Adapter, first_seconds: float = 60, grace_seconds: float = 60) -> Connections:
    return Connections(
        {f"p{number}": adapter for number, adapter in enumerate(adapters)},
        nothing,
        sleep=at_once,
        first_seconds=first_seconds,
        grace_seconds=grace_seconds,
    )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for does not say so
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    "error", [Unreachable("away"), StoreUnavailable("away"), RuntimeError("what?")]
)
def test_whatever_went_wrong_is_tried_again(error: Exception) -> None:
    async def act() -> None:
        one, other = Scripted(error, error, None), Scripted()
        connections = made(one, other)
        await connections.connect(RecordingServices(), asyncio.Event())
        assert other.is_connected
        await until(lambda: one.is_connected)
        assert (one.tries, connections.failing, connections.refused) == (3, {}, {})
        assert set(connections.states().values()) == {"connected"}
        await connections.disconnect()

    asyncio.run(act())


def test_what_is_refused_later_is_logged_and_not_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def act() -> None:
        one = Scripted(Unreachable("away"), LoginRefused("Who are you?"))
        connections = made(one, Scripted())
        await connections.connect(RecordingServices(), asyncio.Event())
        await until(lambda: bool(connections.refused))
        assert connections.states() == {"p0": "disabled: Who are you?", "p1": "connected"}
        await connections.disconnect()
        assert one.tries == 2

    asyncio.run(act())
    assert "p0 is disabled until you fix this and restart: Who are you?" in caplog.text


def test_when_none_can_be_used_that_is_the_end() -> None:
    async def act() -> None:
        connections = made(Scripted(LoginRefused("wrong token")), Scripted(ConfigError("no port")))
        with pytest.raises(LoginRefused, match=r"p0: wrong token; p1: no port"):
            await connections.connect(RecordingServices(), asyncio.Event())

    asyncio.run(act())


def test_the_start_does_not_wait_for_ever_for_a_platform_that_hangs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def act() -> None:
        hanging, other = Scripted(hangs=True), Scripted()
        connections = made(hanging, other, first_seconds=0.05, grace_seconds=0.05)
        await connections.connect(RecordingServices(), asyncio.Event())
        assert connections.states() == {"p0": "not connected", "p1": "connected"}
        await connections.disconnect()
        assert (hanging.ends, other.ends, other.is_connected) == (1, 1, False)

    asyncio.run(act())
    assert "p0 is slow to connect; starting without it" in caplog.text
    assert "p0 did not disconnect in time" in caplog.text


def test_the_stop_may_come_while_a_platform_connects() -> None:
    async def act() -> None:
        connections = made(Scripted(hangs=True), grace_seconds=0.05)
        ending = asyncio.Event()
        starting = asyncio.create_task(connections.connect(RecordingServices(), ending))
        await asyncio.sleep(0)
        ending.set()
        await starting
        await connections.disconnect()

    asyncio.run(act())


def test_a_failed_disconnect_does_not_block_the_stop(caplog: pytest.LogCaptureFixture) -> None:
    async def act() -> None:
        one, other = Scripted(None, RuntimeError()), Scripted()
        connections = made(one, other)
        await connections.connect(RecordingServices(), asyncio.Event())
        await connections.disconnect()
        assert (one.ends, other.ends) == (1, 1)

    asyncio.run(act())
    assert "p0 did not disconnect" in caplog.text


# ── what is said about it ─────────────────────────────────────────────────────────────────────


def test_foreign_data_in_the_store_is_ignored(harness: TelegramHarness) -> None:
    with harness.open_db() as db:
        reports = PlatformReports(db.store, "default")
        for other in ("not json", "[]", '{"p": 5}'):
            db.set_meta("gateway:default:platforms", other)
            reports.report("p", {"slack": "disabled:\n" + "x" * 1000})
            (said,) = reports.found(["p", "q"]).values()
            assert said["slack"].startswith("disabled: xxx")
            assert len(said["slack"]) == 300
