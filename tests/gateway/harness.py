"""A running gateway: a real store, and the protocols of Telegram and a model over sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import yaml

from hermes_sessions import SessionDB
from hermes_sessions.config import load_settings
from hermes_sessions.gateway.builder import gateway
from hermes_sessions.gateway.platforms.port import Adapter
from hermes_sessions.gateway.runner import EndReason, Gateway
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.fake_servers.telegram.server import ANNA, TelegramServer
from hermes_sessions_testing.scripted_model import (
    Answer,
    RecordedRequest,
    ScriptedModel,
    streamed,
)

PATIENCE = 60


def said(request: RecordedRequest) -> str:
    """The last thing that the model was told."""
    content = request.body["messages"][-1]["content"]
    return content if isinstance(content, str) else str(content)


def echo(request: RecordedRequest) -> Answer | None:
    """Answer what was said, and give every conversation the same title."""
    if "title" in said(request).lower():
        return streamed("A talk")
    return streamed(f"You said: {said(request)}")


class GatewayHarness:
    """A model, and gateways that come and go on one store; messengers are added by those who live
    here.
    """

    def __init__(
        self,
        home: Path,
        platforms: dict[str, Any],
        open_db: Callable[[], SessionDB] | None = None,
    ) -> None:
        self.home = home
        self.model = ScriptedModel()
        self.model.respond = echo
        self._open_db = open_db or (lambda: SessionDB(home / "state.db"))
        self.config: dict[str, Any] = {
            "model": {"base_url": self.model.base_url, "default": self.model.model},
            "platforms": platforms,
            "streaming": {"enabled": False},
            "agent": {"restart_drain_timeout": 30},
        }
        self._running: list[RunningGateway] = []

    def start(self) -> RunningGateway:
        """Start a gateway; it is ready when this returns."""
        running = self.begin()
        running.wait_until_ready()
        return running

    def begin(self) -> RunningGateway:
        """Begin to start a gateway."""
        self.write_config()
        running = RunningGateway(self)
        self._running.append(running)
        return running

    def write_config(self) -> None:
        (self.home / "config.yaml").write_text(yaml.safe_dump(self.config), encoding="utf-8")

    def open_db(self) -> SessionDB:
        return self._open_db()

    def keys(self) -> set[str]:
        """The keys of all lanes."""
        with self.open_db() as db, db.store.provider.read() as tx:
            return {row[0] for row in tx.all("SELECT session_key FROM lanes", ())}

    def adapter(self, name: str) -> Adapter | None:
        """The adapter of the gateway that was started last."""
        gateway = self._running[-1].gateway if self._running else None
        return gateway.adapters.get(name) if gateway else None

    def close_messengers(self) -> None:
        """Close what was opened besides the model."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for running in self._running:
            running.stop()
        self.close_messengers()
        self.model.close()


class TelegramHarness(GatewayHarness):
    """Telegram, a model, and gateways that come and go on one store."""

    def __init__(self, home: Path, open_db: Callable[[], SessionDB] | None = None) -> None:
        self.telegram = TelegramServer()
        section = {
            "token": self.telegram.token,
            "base_url": self.telegram.base_url,
            "allowed_users": [ANNA["id"]],
            "poll_seconds": 1,
            "messages_per_minute": 0,
        }
        super().__init__(home, {"telegram": section}, open_db)

    def close_messengers(self) -> None:
        self.telegram.close()

    def replies(self, chat_id: int = ANNA["id"]) -> list[str]:
        """What the bot has said in a chat."""
        return [sent.text for sent in self.telegram.sent if sent.chat_id == chat_id]

    def wait_for_replies(self, count: int, chat_id: int = ANNA["id"]) -> list[str]:
        """Return what the bot has said, once that is so many messages."""
        self.telegram.wait_for(lambda: len(self.replies(chat_id)) >= count)
        return self.replies(chat_id)


class RunningGateway:
    """A gateway in a thread."""

    def __init__(self, harness: GatewayHarness) -> None:
        self._harness = harness
        self._ready = threading.Event()
        self.gateway: Gateway | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.was_clean: bool | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="gateway")
        self._thread.start()

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # noqa: BLE001 - for the test to see
            self.error = error
        finally:
            self._ready.set()

    async def _run(self) -> None:
        settings = load_settings(self._harness.home, {})
        with self._harness.open_db() as db, gateway(settings, db, environ={}) as built:
            built.on_ready = self._ready.set
            self.gateway, self.loop = built, asyncio.get_running_loop()
            self.was_clean = await built.run()

    def wait_until_ready(self) -> None:
        assert self._ready.wait(PATIENCE), "the gateway did not start"
        if self.error is not None:
            raise self.error

    def wait_until_idle(self) -> None:
        """Return when no lane is at work: a reply is out before its worker has let go of the
        conversation.
        """
        assert self.gateway is not None
        assert self.gateway.pool.wait_idle(PATIENCE), "a lane is still at work"

    def take_stopwatch(self) -> FrozenClock:
        """What measures the turns that begin from now on."""
        assert self.gateway is not None
        self.gateway.pool.stopwatch = watch = FrozenClock(0)
        return watch

    def stop(self, reason: EndReason = "shutdown") -> bool | None:
        """Stop it; return whether it was clean."""
        if self._thread.is_alive() and self.loop is not None and self.gateway is not None:
            self.loop.call_soon_threadsafe(self.gateway.end, reason)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the gateway did not stop"
        return self.was_clean
