"""Several real gateways: ``hermes gateway run`` on one database, behind the webhook of one bot."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import yaml

from hermes_sessions_testing.fake_servers.telegram.server import ANNA, Refusal, TelegramServer
from hermes_sessions_testing.scripted_model import ScriptedModel
from tests.cli.harness import Hermes
from tests.gateway.harness import PATIENCE, echo
from tests.servers.server_processes import free_port

HERMES = str(Path(sys.executable).with_name("hermes"))
SECRET = "a-secret-that-only-telegram-knows"
_PLACE = "https://bot.example.org/telegram"


@contextmanager
def first_call_held(telegram: TelegramServer, method: str) -> Iterator[threading.Event]:
    """Let the next call of a method wait until the end, and then come to nothing; the event is set
    when it waits.
    """
    is_held, is_over = threading.Event(), threading.Event()
    answer = telegram._methods[method.lower()]

    def hold(params: Any) -> Any:
        if is_held.is_set():
            return answer(params)
        is_held.set()
        assert is_over.wait(2 * PATIENCE)
        raise Refusal(500, "No handler waits for this.")

    telegram._methods[method.lower()] = hold
    try:
        yield is_held
    finally:
        is_over.set()


class GatewayCommand:
    """``hermes gateway run``, and what it says."""

    def __init__(
        self,
        hermes: Hermes,
        *arguments: str,
        program: Sequence[str] = (HERMES,),
        **environ: str,
    ) -> None:
        self._process = subprocess.Popen(
            [*program, "gateway", "run", *arguments],
            env=hermes.environ(**environ),
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._is_over = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as written:
            for line in written:
                with self._changed:
                    self.lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def wait_for_line(self, word: str, count: int = 1) -> None:
        """Return when it has said so."""
        with self._changed:
            arrived = self._changed.wait_for(
                lambda: self._is_over or sum(word in line for line in self.lines) >= count,
                PATIENCE,
            )
        assert arrived, self.lines
        assert not self._is_over, self.lines

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float = PATIENCE) -> int:
        code = self._process.wait(seconds)
        self._reader.join(PATIENCE)
        return code

    def kill(self) -> None:
        if self.is_running:
            self._process.kill()
            self._process.wait()
        self._reader.join(PATIENCE)


def sessiondb_at(url: str) -> dict[str, Any]:
    """How a store is configured."""
    if url.startswith("sqlite:"):
        return {"provider": "sqlite", "sqlite": {"path": url.removeprefix("sqlite:///")}}
    dsn, _, query = url.partition("?")
    if dsn.startswith("mysql:"):
        return {"provider": "mysql", "mysql": {"dsn": dsn}}
    schema = query.removeprefix("schema=")
    return {"provider": "postgresql", "postgresql": {"dsn": dsn, "schema": schema}}


class Fleet:
    """A bot on Telegram, a model, and gateways that come and go."""

    def __init__(
        self, home: Path, url: str, *, program: Sequence[str] = (HERMES,), **gateway: Any
    ) -> None:
        """*program* is the ``hermes`` command of the gateways."""
        self._program = program
        self._home = home
        self._sessiondb = sessiondb_at(url)
        self._gateway_settings = gateway
        self.telegram = TelegramServer()
        self.model = ScriptedModel()
        self.model.respond = echo
        self.gateways: dict[int, GatewayCommand] = {}
        self.telegram.route = self._route

    def _route(self, _url: str) -> str:
        """To one of the gateways, by chat, as a load balancer does that keeps what belongs
        together in order. It waits for one that is down.
        """
        chat = int(self.telegram._updates[0]["message"]["chat"]["id"])
        ports = list(self.gateways)
        return f"http://127.0.0.1:{ports[chat % len(ports)]}/telegram"

    def start(self, port: int | None = None) -> int:
        """Start a gateway and return where it listens; it is ready when it says so."""
        port = port or free_port()
        home = self._home / f"gateway-{port}"
        home.mkdir(exist_ok=True)
        config = {
            "sessiondb": self._sessiondb,
            "model": {"base_url": self.model.base_url, "default": self.model.model},
            "platforms": {
                "telegram": {
                    "token": self.telegram.token,
                    "base_url": self.telegram.base_url,
                    "allowed_users": ["*"],
                    "messages_per_minute": 0,
                    "webhook": {"url": _PLACE, "secret": SECRET, "port": port},
                }
            },
            "streaming": {"enabled": False},
            "display": {"busy_input_mode": "queue", "busy_ack_enabled": False},
            "gateway": self._gateway_settings,
        }
        (home / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self.gateways[port] = GatewayCommand(Hermes(home), program=self._program)
        return port

    def start_and_wait(self) -> int:
        port = self.start()
        self.gateways[port].wait_for_line("ready: telegram")
        return port

    def replies(self, chat_id: int = ANNA["id"]) -> list[str]:
        """What the bot has said in a chat."""
        return [sent.text for sent in list(self.telegram.sent) if sent.chat_id == chat_id]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for gateway in self.gateways.values():
            gateway.kill()
        self.telegram.close()
        self.model.close()
