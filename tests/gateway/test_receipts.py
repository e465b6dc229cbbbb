"""The reason why a message was refused, as adapters get it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.gateway.events import Inbound, Receipt
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.harness import PATIENCE, RunningGateway, TelegramHarness

ANNA = SessionSource(Platform.TELEGRAM, "7", chat_type="dm", user_id="7", user_name="Anna")
BERT = SessionSource(Platform.TELEGRAM, "8", chat_type="dm", user_id="8", user_name="Bert")
ROBOT = SessionSource(Platform.TELEGRAM, "9", chat_type="dm", user_id="9", is_bot=True)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[TelegramHarness]:
    def open_db() -> SessionDB:
        return SessionDB(tmp_path / "state.db", max_message_bytes=10_000)

    with TelegramHarness(tmp_path, open_db) as harness:
        yield harness


def accept(running: RunningGateway, source: SessionSource, text: str, number: int) -> Receipt:
    assert running.gateway is not None
    assert running.loop is not None
    taking = running.gateway.accept(Inbound(source, text, f"m{number}"))
    return asyncio.run_coroutine_threadsafe(taking, running.loop).result(PATIENCE)


def test_a_sender_who_is_not_allowed(harness: TelegramHarness) -> None:
    running = harness.start()
    pairing = accept(running, BERT, "Hello", 1)
    assert (pairing.status, pairing.reason) == ("refused", "unknown")
    assert "hermes gateway pair" in (pairing.reply or "")
    assert accept(running, ROBOT, "Beep", 2).reason == "bot"


def test_who_writes_too_much(harness: TelegramHarness) -> None:
    harness.config["platforms"]["telegram"]["messages_per_minute"] = 1
    running = harness.start()
    assert accept(running, ANNA, "/help", 1).reason is None
    assert accept(running, ANNA, "/help", 2).reason == "too many"


@pytest.mark.parametrize("text", ["x" * 20_000, "/title " + "x" * 20_000])
def test_what_is_too_large(harness: TelegramHarness, text: str) -> None:
    refused = accept(harness.start(), ANNA, text, 1)
    assert (refused.status, refused.reason) == ("refused", "too large")


def test_a_lane_in_which_too_much_waits(harness: TelegramHarness) -> None:
    harness.config["gateway"] = {"mailbox_limit": 1}
    harness.config["display"] = {"busy_input_mode": "queue"}
    running = harness.start()
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed(gate, "At last")
    accept(running, ANNA, "One", 1)
    gate.wait_until_reached()
    assert accept(running, ANNA, "Two", 2).status == "stored"
    assert accept(running, ANNA, "Three", 3).reason == "full"
    gate.open()
