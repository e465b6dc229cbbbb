"""Commands and probes of a gateway whose database is frozen or unreachable: fast and correct."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from hermes_sessions import SessionDB
from hermes_sessions.storage.tables import KNOWN_LEVEL
from hermes_sessions_testing.scripted_model import ScriptedModel
from tests.cli.harness import Hermes, Result
from tests.gateway.fleet import GatewayCommand, sessiondb_at
from tests.gateway.harness import PATIENCE
from tests.servers.server_processes import free_port
from tests.servers.stores import Place

TOKEN = "a-token-that-nobody-guesses"
#: Far above what an answer takes, and far below what a frozen server is waited for.
PROMPT = 10.0


class Away:
    """A home with the HTTP API, on a server that comes and goes."""

    def __init__(self, home: Path, url: str) -> None:
        self.hermes = Hermes(home)
        self.port = free_port()
        self._model = ScriptedModel()
        self.configure(url)
        self._commands: list[GatewayCommand] = []

    def configure(self, url: str, *, lease_seconds: float = 6) -> None:
        config = {
            "model": {"base_url": self._model.base_url, "default": self._model.model},
            "platforms": {"api": {"token": TOKEN, "port": self.port}},
            "sessiondb": sessiondb_at(url),
            # A heartbeat every second.
            "gateway": {"lease_seconds": lease_seconds},
            "agent": {"restart_drain_timeout": 0},
        }
        (self.hermes.home / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def run(self, *arguments: str) -> GatewayCommand:
        self._commands.append(GatewayCommand(self.hermes, *arguments))
        return self._commands[-1]

    def get(self, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", headers=headers, timeout=PROMPT)

    def post(self, text: str) -> httpx.Response:
        return httpx.post(
            f"http://127.0.0.1:{self.port}/v1/conversations/main/messages",
            headers={"Authorization": f"Bearer {TOKEN}"},
            json={"text": text},
            timeout=PROMPT,
        )

    def call(self, *arguments: str) -> Result:
        """Run a command that must end soon."""
        process = self.hermes.start("gateway", *arguments)
        out, err = process.communicate(timeout=2 * PROMPT)
        return Result(process.returncode, out, err)

    def close(self) -> None:
        for command in self._commands:
            command.kill()
        self._model.close()


def wait_until(holds: Callable[[], Any]) -> None:
    until = time.monotonic() + PATIENCE / 2
    while not holds():
        assert time.monotonic() < until, "it did not come about"


def is_answered(away: Away) -> bool:
    """Whether the API listens."""
    try:
        return away.get("/healthz").status_code == 200
    except httpx.ConnectError:
        return False


@contextmanager
def frozen(place: Place) -> Iterator[None]:
    place.server.freeze()
    try:
        yield
    finally:
        place.server.thaw()


@contextmanager
def stopped(place: Place) -> Iterator[None]:
    place.server.stop(place.server.killed_by)
    try:
        yield
    finally:
        place.server.start()


@pytest.fixture
def away(place: Place, short_path: Path) -> Iterator[Away]:
    made = Away(short_path, place.url())
    yield made
    made.close()


def test_a_gateway_that_is_well(away: Away) -> None:
    away.run().wait_for_line("ready")
    health, ready = away.get("/healthz").json(), away.get("/readyz")
    assert (health["status"], health["store"]) == ("ok", "healthy")
    assert (ready.status_code, ready.json()["problems"]) == (200, {})
    status = away.call("status")
    assert (status.code, status.err) == (0, "")
    assert "\n  api_server: connected\n  database: healthy as of " in status.out
    assert "\nReplies: none\n" in status.out


@pytest.mark.fault(
    "The database of a gateway is frozen",
    "Probes, metrics and `hermes gateway status` answer at once with what was last known and its "
    "age; not ready until it answers again",
)
def test_probes_and_status_while_the_database_is_frozen(place: Place, away: Away) -> None:
    command = away.run()
    command.wait_for_line("ready")
    with frozen(place):
        wait_until(lambda: away.get("/healthz").json()["store"] == "down")
        health, ready = away.get("/healthz"), away.get("/readyz")
        assert (health.status_code, health.json()["status"]) == (200, "ok")
        assert health.json()["heartbeat_age"] >= 0
        assert (ready.status_code, ready.json()["problems"]) == (503, {"database": "down"})
        metrics = away.get("/metrics").text
        assert 'hermes_gateway_store_state{state="down"} 1.0' in metrics
        assert "\nhermes_gateway_heartbeat_age_seconds " in metrics
        status = away.call("status")
        assert status.code == 0
        assert f"Running: process {command.pid} on " in status.out
        assert "\n  api_server: connected\n  database: down as of " in status.out
        document = away.call("status", "--json").json
        assert document["living"] is None
        (local,) = document["local"]
        assert (local["pid"], local["state"], local["store"]) == (command.pid, "running", "down")
    wait_until(lambda: away.get("/readyz").status_code == 200)


@pytest.mark.parametrize("command", ["status", "stop", "restart"])
def test_commands_without_a_gateway_give_up_soon(place: Place, away: Away, command: str) -> None:
    """They say what they wait for, and do not wait as long as a write would."""
    with frozen(place):
        ended = away.call(command)
    assert ended.code == 3
    assert ended.err.startswith("No gateway is running in this home. Waiting for the database …\n")
    assert "The database did not answer within 5 s." in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("gone", [frozen, stopped])
@pytest.mark.fault(
    "A gateway is restarted or stopped while its database is frozen or stopped",
    "It restarts, waits and is ready when the database is back; it stops",
)
def test_restart_and_stop_while_the_database_is_away(
    place: Place, away: Away, gone: Callable[[Place], AbstractContextManager[None]]
) -> None:
    command = away.run()
    command.wait_for_line("ready")
    with gone(place):
        restarted = away.call("restart")
        assert (restarted.code, restarted.out) == (0, f"Process {command.pid} was restarted.\n")
        wait_until(lambda: "waiting for the database" in away.call("status").out)
    command.wait_for_line("ready", 2)
    with gone(place):
        ended = away.call("stop")
        assert (ended.code, ended.out) == (0, f"Process {command.pid} was stopped.\n")
        assert command.wait() == 0
    assert not list((away.hermes.home / "gateway" / "run").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("gone", [frozen, stopped])
@pytest.mark.fault(
    "A gateway is stopped just when its database fails, before it has noticed",
    "It stops in a few seconds; what was not finished continues at the next start",
)
def test_stop_just_after_the_database_failed(
    place: Place, away: Away, gone: Callable[[Place], AbstractContextManager[None]]
) -> None:
    away.configure(place.url(), lease_seconds=60)
    command = away.run()
    command.wait_for_line("ready")
    with gone(place):
        started = time.monotonic()
        ended = away.call("stop")
        assert (ended.code, ended.out) == (0, f"Process {command.pid} was stopped.\n")
        assert command.wait() == 0
        assert time.monotonic() - started < PROMPT
    assert not list((away.hermes.home / "gateway" / "run").iterdir())


@pytest.mark.fault(
    "The database of a gateway that starts is not there yet",
    "The gateway waits, is not ready and takes nothing; it is ready when the database is there",
)
def test_a_gateway_waits_for_its_database(place: Place, away: Away) -> None:
    with stopped(place):
        command = away.run()
        command.wait_for_line("the gateway waits for its database")
        wait_until(lambda: is_answered(away))
        health, ready = away.get("/healthz"), away.get("/readyz")
        assert (health.status_code, health.json()["store"]) == (200, "down")
        assert (ready.status_code, ready.json()["problems"]) == (503, {"database": "down"})
        assert away.get("/v1/sessions").status_code == 503
        assert away.get("/metrics").status_code == 200
        assert away.post("Hello").status_code == 503
    command.wait_for_line("ready: api_server")
    wait_until(lambda: away.get("/readyz").status_code == 200)
    assert away.post("Hello").status_code == 202
    assert sum("WARNING the gateway waits" in line for line in command.lines) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_gateway_that_waits_ends_at_once(
    place: Place, away: Away, number: signal.Signals
) -> None:
    with frozen(place):
        command = away.run()
        wait_until(lambda: is_answered(away))
        command.signal(number)
        assert command.wait(PROMPT) == 0
    assert "stopped before the database became available" in command.lines[-1]


def test_a_gateway_that_is_not_to_wait(place: Place, away: Away) -> None:
    with stopped(place):
        command = away.run("--no-wait")
        assert command.wait() == 3
    assert "the server cannot be reached" in command.lines[-1]


def test_wrong_configuration_is_not_waited_for(place: Place, away: Away) -> None:
    nowhere = {"postgresql": ("/postgres", "/nowhere"), "mariadb": (f"/{place.name}", "/nowhere")}
    for url in (place.url_as("stranger:wrong"), place.url().replace(*nowhere[place.kind])):
        away.configure(url)
        command = away.run()
        assert command.wait() == 3, command.lines
        assert "waits for its database" not in "".join(command.lines)


def test_a_newer_store_is_not_waited_for(place: Place, away: Away) -> None:
    with SessionDB.from_url(place.url()) as db:
        db.create_session("s", "cli")
    place.run(
        f"INSERT INTO store_migrations (name, applied_at, writer_level) "
        f"VALUES ('9999_future', 1, {KNOWN_LEVEL + 1})"
    )
    try:
        command = away.run()
        assert command.wait() == 3
    finally:
        place.run("DELETE FROM store_migrations WHERE name = '9999_future'")
    assert "newer version" in command.lines[-1]
