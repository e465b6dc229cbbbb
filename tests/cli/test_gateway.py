"""`hermes gateway`: the real command, with a fake Telegram and a scripted model."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hermes_sessions.cli.gateway import run
from hermes_sessions.gateway.delivery import reply_to
from hermes_sessions.gateway.events import Inbound, Target
from hermes_sessions.gateway.inbound_spool import Spool, spool_directory
from hermes_sessions.gateway.platforms.local.settings import SOCKET_NAME
from hermes_sessions.gateway.platforms.local.socket_client import LocalClient
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions.storage.repositories.senders import Senders
from hermes_sessions_testing.fake_servers.telegram.server import ANNA
from hermes_sessions_testing.scripted_model import streamed
from tests.cli.harness import NOW, Hermes
from tests.gateway.harness import PATIENCE, TelegramHarness
from tests.servers.server_processes import free_port

HERMES = str(Path(sys.executable).with_name("hermes"))


@pytest.fixture
def tmp_path(short_path: Path) -> Path:
    """The gateway's socket is in it."""
    return short_path


@pytest.fixture
def hermes(tmp_path: Path) -> Hermes:
    return Hermes(tmp_path)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[TelegramHarness]:
    with TelegramHarness(tmp_path) as harness:
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(harness.config), encoding="utf-8")
        yield harness


class Process:
    """``hermes gateway run`` for real."""

    def __init__(self, hermes: Hermes, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [HERMES, "gateway", "run", *arguments],
            env=hermes.environ(),
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
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

    def wait_for_line(self, word: str, count: int = 1) -> None:
        with self._changed:
            arrived = self._changed.wait_for(
                lambda: sum(word in line for line in self.lines) >= count, 60
            )
        assert arrived, self.lines

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        code = self._process.wait(60)
        self._reader.join(60)
        return code

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join(60)


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in started:
        process.kill()


def test_run_answers_until_it_is_told_to_stop(
    harness: TelegramHarness, hermes: Hermes, processes: list[Process]
) -> None:
    process = Process(hermes)
    processes.append(process)
    process.wait_for_line("ready: telegram")
    harness.telegram.write("Hello, secret words")
    assert harness.wait_for_replies(1) == ["You said: Hello, secret words"]
    status = subprocess.run(
        [HERMES, "gateway", "status"],
        env=hermes.environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert status.stdout.startswith("Running: process ")
    assert "\n  telegram: connected\n" in status.stdout
    assert "Conversations: 1 active" in status.stdout
    process.signal(signal.SIGTERM)
    assert process.wait() == 0
    assert "stopped\n" in process.lines[-1]
    assert "secret words" not in "".join(process.lines)


def test_a_killed_gateway_goes_on_where_it_was(
    harness: TelegramHarness, hermes: Hermes, processes: list[Process]
) -> None:
    first = Process(hermes)
    processes.append(first)
    first.wait_for_line("ready")
    gate = harness.model.gate()
    answer = harness.model.respond
    harness.model.respond = lambda _request: streamed(gate, "never said")
    harness.telegram.write("Do not forget me")
    gate.wait_until_reached()
    first.kill()
    harness.model.respond = answer
    second = Process(hermes)
    processes.append(second)
    assert harness.wait_for_replies(1) == ["You said: Do not forget me"]
    second.signal(signal.SIGINT)
    assert second.wait() == 0
    with hermes.db() as db:
        (session,) = db.list_sessions_rich()
        roles = [message["role"] for message in db.get_messages(session["id"])]
    assert roles == ["user", "assistant"]


def test_restart_and_stop_from_another_terminal(
    harness: TelegramHarness, hermes: Hermes, processes: list[Process]
) -> None:
    process = Process(hermes, "--json")
    processes.append(process)
    process.wait_for_line("ready")

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [HERMES, "gateway", *arguments],
            env=hermes.environ(),
            capture_output=True,
            text=True,
            check=False,
        )

    restarted = call("restart")
    assert (restarted.returncode, restarted.stderr) == (0, "")
    assert re.fullmatch(r"Process \d+ was restarted\.\n", restarted.stdout)
    process.wait_for_line("ready", 2)
    harness.telegram.write("Still there?")
    assert harness.wait_for_replies(1) == ["You said: Still there?"]
    assert call("stop").returncode == 0
    assert process.wait() == 0
    again = call("stop", "--no-wait")
    assert (again.returncode, again.stdout) == (1, "")
    assert "No gateway is running on this machine" in again.stderr


def test_with_json_everything_in_the_log_is_json(
    harness: TelegramHarness, hermes: Hermes, processes: list[Process]
) -> None:
    process = Process(hermes, "--json")
    processes.append(process)
    process.wait_for_line("ready")
    gate = harness.model.gate()
    harness.model.respond = lambda _request: streamed(gate, "Never seen")
    harness.telegram.write("Hello")
    gate.wait_until_reached()
    harness.telegram.block(ANNA["id"])
    gate.open()
    process.wait_for_line("gave up on reply")
    process.signal(signal.SIGTERM)
    assert process.wait() == 0
    told = [json.loads(line) for line in process.lines]
    (warning,) = [one for one in told if "gave up on reply" in one["message"]]
    assert (warning["level"], warning["logger"]) == ("warning", "hermes_sessions.gateway.delivery")
    assert "Never seen" not in "".join(process.lines)


def test_one_that_was_killed_does_not_run(
    harness: TelegramHarness, hermes: Hermes, processes: list[Process]
) -> None:
    harness.config["gateway"] = {"lease_seconds": 3600}
    harness.write_config()
    process = Process(hermes)
    processes.append(process)
    process.wait_for_line("ready")
    process.kill()
    status = hermes.call("gateway", "status")
    assert status.code == 1
    assert status.out.startswith("Not running.")
    assert "Silent: process" in status.out
    for command in ("stop", "restart"):
        result = hermes.call("gateway", command)
        assert result.code == 1
        assert "No gateway is running on this machine" in result.err


@pytest.mark.parametrize("as_json", [False, True])
def test_errors_are_logged_without_message_texts(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with run._log("info", as_json=as_json):
        try:
            "a secret \ud800".encode()
        except UnicodeEncodeError:
            logging.getLogger("hermes_sessions.gateway").exception("could not be taken")
    logged = capsys.readouterr().err
    assert "could not be taken" in logged
    assert "UnicodeEncodeError" in logged
    assert "test_errors_are_logged" in logged
    assert "surrogates not allowed" not in logged


def test_nothing_enabled(hermes: Hermes) -> None:
    log = logging.getLogger("hermes_sessions")
    before = (log.handlers[:], log.level, log.propagate, logging.lastResort)
    result = hermes.call("gateway", "run", "--log-level", "warning")
    assert result.code == 2
    assert "No platform is enabled" in result.err
    assert "telegram" in result.err
    # A program that calls the command in its own process keeps its logging as it was.
    assert (log.handlers[:], log.level, log.propagate, logging.lastResort) == before


def test_an_unavailable_database_is_not_waited_for(hermes: Hermes) -> None:
    (hermes.home / "config.yaml").write_text(
        "platforms: {api: {token: a-token-of-sixteen, port: 0}}\n"
        "sessiondb: {provider: postgresql, postgresql: {dsn: 'postgresql://127.0.0.1:1/x'}}\n"
    )
    result = hermes.call("gateway", "run", "--no-wait")
    assert (result.code, result.out) == (3, "")
    assert "the server cannot be reached" in result.err
    assert not list((hermes.home / "gateway" / "run").iterdir())


def test_a_missing_package_is_named(hermes: Hermes) -> None:
    # In a process of its own: a module that is loaded a second time is another one for the tests
    # that patch it by its name.
    program = (
        "import sys; sys.modules['prometheus_client'] = None; "
        "sys.argv[0] = 'hermes'; import hermes_start; sys.exit(hermes_start.run())"
    )
    process = hermes.start_program(program, "gateway", "run")
    _, err = process.communicate()
    assert process.returncode == 2
    assert "needs the package prometheus_client" in err
    assert "hermes-sessions[gateway]" in err


def test_status_without_a_gateway(hermes: Hermes) -> None:
    result = hermes.call("gateway", "status")
    assert result.code == 1
    assert result.out.startswith("Not running. To start a gateway, run: hermes gateway run\n")
    assert hermes.call("gateway", "status", "--json").json["living"] == []


def test_stop_without_a_gateway(hermes: Hermes) -> None:
    result = hermes.call("gateway", "stop", "--no-wait")
    assert (result.code, result.out) == (1, "")
    assert "hermes gateway status" in result.err


def test_queue_shows_and_redelivers_what_was_kept(hermes: Hermes) -> None:
    assert hermes.call("gateway", "queue", "--kept").out == "No messages are kept.\n"
    assert hermes.call("gateway", "queue", "--redeliver").out == "No messages are kept.\n"
    spool = Spool(spool_directory(hermes.home))
    source = SessionSource(Platform.TELEGRAM, "12", user_id="u")
    for number in range(2):
        spool.put_aside(Inbound(source, "secret words", f"m{number}"), ValueError("secret words"))
    for arguments in (("--kept",), ()):
        shown = hermes.call("gateway", "queue", *arguments)
        assert shown.out == "kept message m0 from telegram 12\nkept message m1 from telegram 12\n"
        (first, _) = hermes.call("gateway", "queue", *arguments, "--json").json["kept"]
        assert (first["platform"], first["chat_id"], first["message_id"]) == (
            "telegram",
            "12",
            "m0",
        )
    unavailable = (
        "sessiondb: {provider: postgresql, postgresql: {dsn: 'postgresql://127.0.0.1:1/x'}}"
    )
    (hermes.home / "config.yaml").write_text(unavailable)
    assert hermes.call("gateway", "queue", "--kept", "--json").json["kept"][1]["message_id"] == "m1"
    done = hermes.call("gateway", "queue", "--redeliver", "--json")
    assert (done.code, done.json) == (0, {"redelivered": 2})
    assert spool.adopt() == 2
    texts: list[str] = []
    spool.replay(lambda inbound: texts.append(inbound.text))
    assert texts == ["secret words"] * 2


def test_queue_shows_and_retries_dead_replies(hermes: Hermes) -> None:
    assert hermes.call("gateway", "queue").out == "The queue is empty.\n"
    with hermes.db() as db:
        outbox = Outbox(db.store, "default")
        number = outbox.put(reply_to(Target("telegram", "12"), "secret words"))
        (claimed,) = outbox.claim(["telegram"], "p", seconds=1, limit=1)
        outbox.give_up(claimed, "blocked by the user")
    shown = hermes.call("gateway", "queue", "--dead", "--limit", "5", now=NOW + 60)
    assert shown.out == (
        f"reply {number} dead to telegram 12, 1m ago, 1 failed attempt: blocked by the user\n"
    )
    (document,) = hermes.call("gateway", "queue", "--json").json["replies"]
    assert document["target"]["chat_id"] == "12"
    assert "secret" not in str(document)
    retried = hermes.call("gateway", "queue", "--retry", str(number), "--json")
    assert (retried.code, retried.json) == (0, {"retried": number})
    assert hermes.call("gateway", "queue", "--dead").out == "The queue is empty.\n"
    refused = hermes.call("gateway", "queue", "--retry", str(number))
    assert (refused.code, refused.out) == (1, "")
    assert "hermes gateway queue --dead" in refused.err


def keep_one(home: Path) -> Path:
    """Have a message wait in a file, as a gateway leaves it that could not store it."""
    place = home / "gateway" / "spool"
    spool = Spool(place)
    spool.append(Inbound(SessionSource(Platform.TELEGRAM, "12"), "What was said", "m1"))
    spool.close()
    return place


def test_status_tells_what_waits_for_the_database(hermes: Hermes, tmp_path: Path) -> None:
    before = hermes.call("gateway", "status", "--json").json
    assert (before["spooled"], before["put_aside"]) == (0, 0)
    place = keep_one(tmp_path)
    shown = hermes.call("gateway", "status")
    assert f"Messages waiting for the database in {place}: 1; a gateway will store" in shown.out
    (place / "1.refused").write_text("{}\n")
    after = hermes.call("gateway", "status", "--json").json
    assert (after["spooled"], after["put_aside"]) == (1, 1)
    assert "were put aside" in hermes.call("gateway", "status").out


def test_without_a_database_status_and_stop_say_what_is_known(
    hermes: Hermes, tmp_path: Path
) -> None:
    dsn = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    config = {"sessiondb": {"provider": "postgresql", "postgresql": {"dsn": dsn}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    place = keep_one(tmp_path)
    shown = hermes.call("gateway", "status")
    assert (shown.code, shown.out) == (3, "")
    assert f"Messages waiting for the database in {place}: 1" in shown.err
    assert "cannot be reached" in shown.err
    stopped = hermes.call("gateway", "stop")
    assert stopped.code == 3
    assert "run: kill -TERM PID" in stopped.err


def test_pairing(hermes: Hermes) -> None:
    with hermes.db() as db:
        code = Senders(db.store, "default").request("telegram", "5", "Bob", lambda text: text[0])
    assert code is not None
    assert "pending telegram 5 Bob" in hermes.call("gateway", "pair", "--list").out
    assert hermes.call("gateway", "pair", code).out == "5 on telegram may talk to the agent now.\n"
    assert hermes.call("gateway", "pair", "--block", "telegram", "5").code == 0
    assert "blocked telegram 5" in hermes.call("gateway", "pair", "--list").out
    assert hermes.call("gateway", "pair", "--forget", "telegram", "5").code == 0
    assert hermes.call("gateway", "pair", "--allow", "matrix", "@a:b").code == 0
    assert hermes.call("gateway", "pair", "--list", "--json").json["senders"][0]["sender_id"] == (
        "@a:b"
    )
    assert hermes.call("gateway", "pair", "WRONG").code == 1
    assert hermes.call("gateway", "pair").code == 2


def test_a_person_who_was_paired_is_answered(harness: TelegramHarness) -> None:
    harness.start()
    bob = {**ANNA, "id": 77, "first_name": "Bob"}
    harness.telegram.write("Let me in", user=bob)
    (reply,) = harness.wait_for_replies(1, 77)
    code = reply.split()[-1]
    with harness.open_db() as db:
        Senders(db.store, "default").approve(code)
    harness.telegram.write("And now?", user=bob)
    assert harness.wait_for_replies(2, 77)[1] == "You said: And now?"


def test_a_talk_through_the_local_socket(
    harness: TelegramHarness, hermes: Hermes, processes: list[Process]
) -> None:
    harness.config["platforms"] = {"local": {"enabled": True}}
    (hermes.home / "config.yaml").write_text(yaml.safe_dump(harness.config), encoding="utf-8")
    process = Process(hermes)
    processes.append(process)
    process.wait_for_line("ready")
    talked = subprocess.run(
        [HERMES, "gateway", "chat", "--chat", "notes"],
        env=hermes.environ(),
        input="Hello\nHow are you?\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "You said: " in talked.stdout
    assert "How are you?" in talked.stdout
    process.signal(signal.SIGTERM)
    assert process.wait() == 0


def test_the_owner_may_restart_it_from_a_chat(
    harness: TelegramHarness, hermes: Hermes, processes: list[Process]
) -> None:
    harness.config["platforms"] = {"local": {"enabled": True}}
    harness.write_config()
    process = Process(hermes)
    processes.append(process)
    process.wait_for_line("ready")

    async def ask(user: str | None) -> list[str]:
        said: list[str] = []
        client = LocalClient(
            hermes.home / "gateway" / SOCKET_NAME,
            lambda event: said.append(event.text),
            user=user,
        )
        talking = asyncio.create_task(client.run())
        client.say("/restart")
        await asyncio.wait_for(client.leave(), PATIENCE)
        talking.cancel()
        return said

    # A client that gives another name is not the owner.
    assert any("Only the owner" in text for text in asyncio.run(ask("guest")))
    assert any("Restarting" in text for text in asyncio.run(ask(None)))
    process.wait_for_line("ready", 2)
    process.signal(signal.SIGTERM)
    assert process.wait() == 0


def test_a_talk_without_a_gateway(hermes: Hermes) -> None:
    result = hermes.call("gateway", "chat", "--chat", "notes", stdin="Hello\n")
    assert (result.code, result.out) == (1, "")
    assert "hermes gateway run" in result.err
    assert hermes.call("gateway", "chat", "--json").code == 2
