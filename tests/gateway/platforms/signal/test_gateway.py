"""A gateway on Signal end to end: signal-cli's protocol, a model's, and a real store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from hermes_sessions import SessionDB
from hermes_sessions.config import load_settings
from hermes_sessions.gateway.application import gateway
from hermes_sessions.gateway.platforms.port import LoginRefused
from hermes_sessions.gateway.runner import Gateway
from hermes_sessions.testing.scripted_model import ScriptedModel, streamed
from hermes_sessions.testing.signal_daemon import ACCOUNT, ANNA, BERT, GROUP, SignalDaemon
from tests.gateway.town import echo

PATIENCE = 60


class Village:
    """Signal, a model, and gateways that come and go on one store."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.signal = SignalDaemon(path=home / "signal.sock")
        self.model = ScriptedModel()
        self.model.respond = echo
        self.config: dict[str, Any] = {
            "model": {"base_url": self.model.base_url, "default": self.model.model},
            "platforms": {
                "signal": {
                    "enabled": True,
                    "account": ACCOUNT,
                    "address": self.signal.address,
                    "allowed_users": [ANNA.number],
                    "messages_per_minute": 0,
                }
            },
            "streaming": {"enabled": False},
        }
        self._stop: list[Running] = []

    def start(self) -> Running:
        (self.home / "config.yaml").write_text(yaml.safe_dump(self.config), encoding="utf-8")
        running = Running(self.home)
        self._stop.append(running)
        running.wait_until_ready()
        return running

    def wait_for_replies(self, count: int, chat_id: str = ANNA.uuid) -> list[str]:
        self.signal.wait_for(lambda: len(self._replies(chat_id)) >= count)
        return self._replies(chat_id)

    def _replies(self, chat_id: str) -> list[str]:
        return [sent.text for sent in list(self.signal.sent) if sent.chat_id == chat_id]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for running in self._stop:
            running.stop()
        self.signal.close()
        self.model.close()


class Running:
    """A gateway in a thread."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._ready = threading.Event()
        self._gateway: Gateway | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="gateway")
        self._thread.start()

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # noqa: BLE001 - for the test to see
            self._error = error
        finally:
            self._ready.set()

    async def _run(self) -> None:
        settings = load_settings(self._home, {})
        db = SessionDB(self._home / "state.db")
        with db, gateway(settings, db, environ={}) as built:
            built.on_ready = self._ready.set
            self._gateway, self._loop = built, asyncio.get_running_loop()
            await built.run()

    def wait_until_ready(self) -> None:
        assert self._ready.wait(PATIENCE), "the gateway did not start"
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        if self._thread.is_alive() and self._loop is not None and self._gateway is not None:
            self._loop.call_soon_threadsafe(self._gateway.end, "shutdown")
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the gateway did not stop"


@pytest.fixture
def village(tmp_path: Path) -> Iterator[Village]:
    with Village(tmp_path) as village:
        yield village


def test_a_message_is_answered_and_stored(village: Village) -> None:
    running = village.start()
    village.signal.write("Hello")
    assert village.wait_for_replies(1) == ["You said: Hello"]
    running.stop()
    with SessionDB(village.home / "state.db") as db:
        (session,) = db.list_sessions_rich()
        assert session["source"] == "signal"
        stored = [(row["role"], row["content"]) for row in db.get_messages(session["id"])]
    assert stored == [("user", "Hello"), ("assistant", "You said: Hello")]
    assert not (village.home / "gateway" / "signal-received.jsonl").exists()


def test_what_comes_between_two_gateways_is_answered(village: Village) -> None:
    village.start().stop()
    village.signal.write("Is anybody there?")
    village.start()
    assert village.wait_for_replies(1) == ["You said: Is anybody there?"]


def test_a_message_delivered_three_times_is_answered_once(village: Village) -> None:
    village.start()
    timestamp = village.signal.tick()
    for _ in range(3):
        village.signal.write("Once", timestamp=timestamp)
    village.wait_for_replies(1)
    village.signal.write("/status")
    first, second = village.wait_for_replies(2)
    assert first == "You said: Once"
    assert "You said" not in second


def test_a_group_is_answered_with_a_quotation(village: Village) -> None:
    village.start()
    village.signal.write("not for you", group=GROUP)
    village.signal.write("for you", group=GROUP, is_addressed=True)
    assert village.wait_for_replies(1, GROUP) == ["You said: for you"]
    assert village.signal.sent[0].params["quoteAuthor"] == ANNA.uuid
    assert village.signal.sent[0].params["quoteMessage"] == "for you"


def test_a_stranger_is_given_a_code_and_no_answer(village: Village) -> None:
    village.start()
    village.signal.write("Let me in", user=BERT)
    (reply,) = village.wait_for_replies(1, BERT.uuid)
    assert "hermes gateway pair" in reply
    assert village.model.requests == []


def test_a_daemon_that_starts_again_is_found(village: Village) -> None:
    village.start()
    village.signal.write("One")
    village.wait_for_replies(1)
    village.signal.restart()
    village.signal.write("Two")
    # The first reply may come twice: its receipt can be lost with the daemon.
    village.signal.wait_for(lambda: village.signal.sent[-1].text == "You said: Two")


def test_a_long_reply_comes_in_parts(village: Village) -> None:
    village.model.respond = lambda _request: streamed("wörd " * 1000)
    village.start()
    village.signal.write("Tell me")
    village.signal.wait_for(
        lambda: " ".join(sent.text for sent in village.signal.sent).split() == ["wörd"] * 1000
    )
    assert all(len(sent.text.encode()) <= 2000 for sent in village.signal.sent)


def test_an_account_that_the_daemon_does_not_have(village: Village) -> None:
    village.signal.accounts = []
    with pytest.raises(LoginRefused, match="does not have the account"):
        village.start()
