"""All platforms on one gateway: the real command, killed and restarted."""

from __future__ import annotations

import asyncio
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx
import pytest
import yaml

from hermes_sessions import SessionDB
from hermes_sessions.gateway.platforms.local.socket_client import Event, LocalClient
from hermes_sessions.gateway.platforms.registry import known_platforms
from hermes_sessions_testing.fake_servers.discord import server as discord_server
from hermes_sessions_testing.fake_servers.discord.server import DiscordServer
from hermes_sessions_testing.fake_servers.signal import daemon as signal_daemon
from hermes_sessions_testing.fake_servers.signal.daemon import SignalDaemon
from hermes_sessions_testing.fake_servers.slack import workspace as slack_workspace
from hermes_sessions_testing.fake_servers.slack.server import SlackServer
from hermes_sessions_testing.fake_servers.telegram import server as telegram_server
from hermes_sessions_testing.fake_servers.telegram.server import TelegramServer
from hermes_sessions_testing.fake_servers.whatsapp.server import ANNA as WHATSAPP_ANNA
from hermes_sessions_testing.fake_servers.whatsapp.server import WhatsAppServer
from hermes_sessions_testing.scripted_model import RecordedRequest, ScriptedModel, streamed
from tests.cli.harness import Hermes
from tests.gateway.harness import echo, said
from tests.gateway.platforms.matrix.conftest import messenger, people, synapse  # noqa: F401 - fixtures
from tests.gateway.platforms.matrix.synapse_platform import SynapsePlatform, shown_in
from tests.gateway.platforms.whatsapp.fake_whatsapp import VERIFY_TOKEN
from tests.servers.server_processes import free_port

PATIENCE = 120.0
API_TOKEN = "a-token-for-the-api-of-tests"


class Everywhere:
    """All messengers, a model, and one home."""

    def __init__(self, home: Path, matrix: SynapsePlatform) -> None:
        self.home = home
        self.matrix = matrix
        matrix.home = home / "gateway"
        self.model = ScriptedModel()
        self.model.respond = echo
        self.telegram = TelegramServer()
        self.discord = DiscordServer()
        self.slack = SlackServer(mode="socket")
        self.whatsapp = WhatsAppServer()
        self.signal = SignalDaemon()
        self.local = LocalTalk(home / "gateway" / "local.sock")
        self._api_port = free_port()
        self._write_config()

    def _write_config(self) -> None:
        free = {"messages_per_minute": 0}
        platforms: dict[str, dict[str, Any]] = {
            "telegram": {
                "token": self.telegram.token,
                "base_url": self.telegram.base_url,
                "poll_seconds": 1,
                "allowed_users": [telegram_server.ANNA["id"]],
            },
            "discord": {
                "token": self.discord.token,
                "base_url": self.discord.base_url,
                "allowed_users": [discord_server.ANNA["id"]],
            },
            "slack": {
                "token": self.slack.token,
                "app_token": self.slack.app_token,
                "base_url": self.slack.base_url,
                "allowed_users": [slack_workspace.ANNA.id],
            },
            "whatsapp": {
                "token": self.whatsapp.token,
                "phone_number_id": self.whatsapp.phone_number_id,
                "app_secret": self.whatsapp.app_secret,
                "verify_token": VERIFY_TOKEN,
                "base_url": self.whatsapp.base_url,
                "allowed_users": [WHATSAPP_ANNA.number, WHATSAPP_ANNA.user_id],
                "webhook": {"port": 0},
            },
            "signal": {
                "account": signal_daemon.ACCOUNT,
                "address": self.signal.address,
                "allowed_users": [signal_daemon.ANNA.number],
            },
            "matrix": {
                "homeserver": self.matrix.proxy.url,
                "user": self.matrix.bot.user_id,
                "password": self.matrix.bot.password,
                "allowed_users": [self.matrix.people["anna"].user_id],
                "sync_seconds": 5,
            },
            "api": {"token": API_TOKEN, "port": self._api_port},
            "local": {},
        }
        assert sorted(platforms) == list(known_platforms())
        for name, chat_id in self._homes().items():
            platforms[name]["home_channel"] = chat_id
        config = {
            "model": {"base_url": self.model.base_url, "default": self.model.model},
            "platforms": {
                name: {"enabled": True, **free, **section} if name != "local" else {"enabled": True}
                for name, section in platforms.items()
            },
            "streaming": {"enabled": False},
        }
        (self.home / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def _homes(self) -> dict[str, object]:
        """Anna's private chats, where the agent can write first."""
        return {
            "telegram": telegram_server.ANNA["id"],
            "discord": self.discord.state.direct_channel(discord_server.ANNA),
            "slack": slack_workspace.ANNA.chat,
            "whatsapp": WHATSAPP_ANNA.number,
            "signal": signal_daemon.ANNA.uuid,
            "matrix": self.matrix.room_id("private"),
        }

    def hand_over(self) -> list[str]:
        """Hand a session of a terminal to every platform that has a home channel; return those."""
        with SessionDB(self.home / "state.db") as db:
            for name in self._homes():
                db.create_session(f"roof-{name}", "cli")
                db.append_message(f"roof-{name}", "user", f"The roof of {name} is green.")
                db.append_message(f"roof-{name}", "assistant", "I see.")
                db.set_session_title(f"roof-{name}", f"Roof of {name}")
                assert db.request_handoff(f"roof-{name}", name)
        return list(self._homes())

    def length_of(self, session_id: str) -> int:
        with SessionDB(self.home / "state.db") as db:
            return len(db.get_messages(session_id))

    @contextmanager
    def gateway(self) -> Iterator[None]:
        """``hermes gateway run``, ready on all platforms, and killed at the end."""
        process = Hermes(self.home).start(
            "gateway", "run", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        with process:
            try:
                log = _Log(process)
                port = log.wait_for(r"listening for messages on port (\d+)")
                log.wait_for(r"(ready): ")
                self.whatsapp.callback = lambda: f"http://127.0.0.1:{port}/whatsapp"
                yield
            finally:
                self.whatsapp.callback = lambda: ""
                process.kill()

    def say(self, name: str, text: str) -> None:
        """Let Anna say something in private."""
        if name == "api":
            answer = self._ask_api("POST", json={"text": text})
            assert answer.status_code == 202, answer.text
        else:
            {
                "telegram": self.telegram.write,
                "discord": self.discord.write,
                "slack": self.slack.write,
                "whatsapp": self.whatsapp.write,
                "signal": self.signal.write,
                "matrix": self.matrix.write,
                "local": self.local.say,
            }[name](text)

    def heard(self, name: str) -> list[str]:
        """What Anna was told in private."""
        if name == "api":
            rows = self._ask_api("GET").json().get("data", [])
            return [row["content"] for row in rows if row["role"] == "assistant"]
        if name == "local":
            return list(self.local.heard)
        if name == "matrix":
            room = self.matrix.room_id("private")
            shown = shown_in(room, self.matrix.events(room), self.matrix.bot.user_id)
            return [message.text for message in shown]
        server: Any = getattr(self, name)
        return [sent.text for sent in server.sent]

    def wait_for(self, name: str, condition: Callable[[list[str]], bool]) -> list[str]:
        """Return what Anna was told, once that is as it should be."""
        until = time.monotonic() + PATIENCE
        while not condition(found := self.heard(name)):
            assert time.monotonic() < until, f"{name}: {found}"
            time.sleep(0.05)
        return found

    def keys(self) -> set[str]:
        with SessionDB(self.home / "state.db") as db, db.store.provider.read() as tx:
            return {row[0] for row in tx.all("SELECT session_key FROM lanes", ())}

    def documented_keys(self) -> set[str]:
        """The keys that the pages of the platforms promise for Anna in private."""
        room = quote(self.matrix.room_id("private"), safe="!")
        return {
            f"agent:main:telegram:dm:{telegram_server.ANNA['id']}",
            f"agent:main:discord:dm:{self.discord.state.direct_channel(discord_server.ANNA)}",
            f"agent:main:slack:dm:{slack_workspace.ANNA.chat}",
            f"agent:main:whatsapp:dm:{WHATSAPP_ANNA.number}",
            f"agent:main:signal:dm:{signal_daemon.ANNA.uuid}",
            f"agent:main:matrix:dm:{room}",
            "agent:main:api_server:dm:main",
            "agent:main:local:dm:main",
        }

    def is_asked(self, text: str) -> bool:
        """Whether the model was asked that."""
        return any(said(request).endswith(text) for request in list(self.model.requests))

    def _ask_api(self, method: str, **options: Any) -> httpx.Response:
        url = f"http://127.0.0.1:{self._api_port}/v1/conversations/main/messages"
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return httpx.request(
                    method,
                    url,
                    headers={"Authorization": f"Bearer {API_TOKEN}"},
                    timeout=PATIENCE,
                    **options,
                )
            except httpx.ConnectError:
                assert time.monotonic() < until, "the API does not listen"
                time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.local.close()
        for server in (self.telegram, self.discord, self.slack, self.whatsapp, self.signal):
            server.close()
        self.model.close()


class _Log:
    """What a gateway says, read for as long as it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._lines = ""
        self._grew = threading.Condition()
        self._is_over = False
        threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            with self._grew:
                self._lines += line
                self._grew.notify_all()
        with self._grew:
            self._is_over = True
            self._grew.notify_all()

    def wait_for(self, pattern: str) -> str:
        """Return the group of the pattern that was found."""
        with self._grew:
            found = self._grew.wait_for(
                lambda: re.search(pattern, self._lines) or self._is_over, PATIENCE
            )
            match = re.search(pattern, self._lines)
        assert found, self._lines
        assert match, self._lines
        return next(group for group in match.groups() if group)


class LocalTalk:
    """A client of the local socket that reconnects after a restart of the gateway."""

    def __init__(self, path: Path) -> None:
        self.heard: list[str] = []
        self._path = path
        self._loop = asyncio.new_event_loop()
        self._client: LocalClient | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_there = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._is_there.wait(PATIENCE)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._client = LocalClient(self._path, self._show)
        self._task = self._loop.create_task(self._client.run())
        self._is_there.set()
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.close()

    def _show(self, shown: Event) -> None:
        if shown.kind == "message":
            self.heard.append(shown.text)

    def say(self, text: str) -> None:
        async def say() -> None:
            assert self._client is not None
            self._client.say(text)

        asyncio.run_coroutine_threadsafe(say(), self._loop).result(PATIENCE)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())
        self._thread.join(PATIENCE)


@pytest.fixture
def everywhere(short_path: Path, messenger: SynapsePlatform) -> Iterator[Everywhere]:  # noqa: F811
    with Everywhere(short_path, messenger) as made:
        yield made


@pytest.mark.slow
def test_all_platforms_at_once_on_one_gateway(everywhere: Everywhere) -> None:
    names = known_platforms()
    gate = everywhere.model.gate()

    def held(request: RecordedRequest) -> Any:
        is_late = "Do not forget" in said(request) and "title" not in said(request).lower()
        return streamed("never said", gate, " to the end") if is_late else echo(request)

    with everywhere.gateway():
        for name in names:
            everywhere.say(name, f"The plum of {name}")
        for name in names:
            answer = f"You said: The plum of {name}"
            assert everywhere.wait_for(name, len)[0] == answer
        assert everywhere.keys() == everywhere.documented_keys()

        # Users find their own messages only.
        for name in sorted(set(names) - {"api"}):
            everywhere.say(name, "!search plum" if name == "matrix" else "/search plum")
            found = everywhere.wait_for(name, lambda heard: len(heard) >= 2)[1]
            assert f"of {name}" in found.replace(">>>", "").replace("<<<", ""), found
            assert not [other for other in names if other != name and f"of {other}" in found]

        everywhere.model.respond = held
        for name in names:
            everywhere.say(name, f"Do not forget {name}")
        until = time.monotonic() + PATIENCE
        while {name for name in names if everywhere.is_asked(f"Do not forget {name}")} != {*names}:
            assert time.monotonic() < until, "not everything was taken"
            time.sleep(0.05)
    gate.open()
    everywhere.model.respond = echo

    with everywhere.gateway():
        for name in names:
            answer = f"You said: Do not forget {name}"
            everywhere.wait_for(name, lambda heard, answer=answer: answer in heard)
            everywhere.say(name, f"Still there, {name}?")
        for name in names:
            last = f"You said: Still there, {name}?"
            heard = everywhere.wait_for(name, lambda heard, last=last: last in heard)
            assert heard.count(f"You said: Do not forget {name}") == 1
            assert heard.count(last) == 1
        assert everywhere.keys() == everywhere.documented_keys()

        # A session from the terminal continues in every home channel.
        handed_over = everywhere.hand_over()
        for name in handed_over:
            note = f"Continuing here: Roof of {name}"
            everywhere.wait_for(name, lambda heard, note=note: note in heard)
            everywhere.say(name, f"And the door of {name}?")
        for name in handed_over:
            answer = f"You said: And the door of {name}?"
            everywhere.wait_for(name, lambda heard, answer=answer: answer in heard)
            assert everywhere.length_of(f"roof-{name}") == 4
