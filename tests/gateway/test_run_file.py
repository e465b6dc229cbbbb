"""Run files and status sockets: running gateways are found without the database."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from hermes_sessions.gateway.run_file import LocalGateway, RunFile, local_gateways
from hermes_sessions.storage.host_processes import host_name
from tests.cli.harness import Hermes
from tests.gateway.fleet import GatewayCommand
from tests.gateway.harness import PATIENCE

#: A database server that does not run.
AWAY = """
platforms: {api: {token: a-token-that-nobody-guesses, port: 0}}
sessiondb: {provider: postgresql, postgresql: {dsn: 'postgresql://127.0.0.1:1/x'}}
"""


@pytest.fixture
def home(short_path: Path) -> Path:
    return short_path


@pytest.fixture
def hermes(home: Path) -> Hermes:
    (home / "config.yaml").write_text(AWAY)
    return Hermes(home)


@pytest.fixture
def waiting(hermes: Hermes) -> Iterator[GatewayCommand]:
    """A gateway that waits for its database."""
    command = GatewayCommand(hermes)
    command.wait_for_line("waits for its database")
    yield command
    command.kill()


def only(home: Path) -> LocalGateway:
    (found,) = local_gateways(home, "default")
    return found


def files(home: Path) -> list[Path]:
    return list((home / "gateway" / "run").iterdir())


def test_a_gateway_is_found_and_asked(home: Path) -> None:
    with RunFile(home, "default", "1.0") as run_file:
        found = only(home)
        assert (found.process.pid, found.process.version) == (os.getpid(), "1.0")
        known = {"pid": os.getpid(), "instance": found.instance}
        assert found.ask(PATIENCE) == {**known, "state": "starting"}
        run_file.look = lambda: {"state": "running"}
        assert found.ask(PATIENCE) == {**known, "state": "running"}
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files(home))
        assert stat.S_IMODE((home / "gateway" / "run").stat().st_mode) == 0o700
    assert (local_gateways(home, "default"), files(home)) == ([], [])
    assert found.ask(PATIENCE) is None


def test_a_home_whose_path_is_too_long_for_a_socket(home: Path) -> None:
    far = home / ("x" * 100)
    with RunFile(far, "default", "1.0"):
        found = only(far)
        address = Path(found.address)
        assert stat.S_IMODE(address.parent.stat().st_mode) == 0o700
        assert found.ask(PATIENCE) is not None
    assert not address.parent.exists()


def test_clients_that_do_not_behave(home: Path) -> None:
    with RunFile(home, "default", "1.0") as run_file, ExitStack() as stack:
        # So much that it would not all be taken by a client that does not read.
        run_file.look = lambda: {"why": "x" * 60_000}
        found = only(home)
        for number in range(100):
            client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            client.connect(found.address)
            if number % 2:
                client.close()
                continue
            # It may have been answered already.
            with suppress(OSError):
                client.sendall(b"\0garbage\n" * 100)
        assert found.ask(PATIENCE) is not None
        run_file.look = lambda: {"why": "x" * 10**6}
        assert found.ask(PATIENCE) == {}


@pytest.mark.parametrize("said", [b"", b"garbage", b"[1]", b"x" * 10**6], ids=len)
def test_one_that_says_nothing_sensible(home: Path, said: bytes) -> None:
    def answer(listener: socket.socket) -> None:
        client, _ = listener.accept()
        # The client does not read all of it.
        with client, suppress(OSError):
            client.sendall(said)

    with (
        RunFile(home, "default", "1.0"),
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
    ):
        address = str(home / "other.sock")
        listener.bind(address)
        listener.listen()
        answering = threading.Thread(target=answer, args=(listener,))
        answering.start()
        assert only(home)._replace(address=address).ask(PATIENCE) is None
        answering.join(PATIENCE)


def test_files_that_are_no_run_files(home: Path) -> None:
    with RunFile(home, "default", "1.0"):
        (path,) = (home / "gateway" / "run").glob("*.json")
        values = json.loads(path.read_text())
        for number, text in enumerate(["", "[]", "{}", '{"process": 1}', "\0", path.read_text()]):
            (path.parent / f"{number}.json").write_text(text)
        # The number of another program, another bot, and a process on another host.
        for name, changed in (
            ("another", {"id": "1.started-never"}),
            ("of another bot", {"namespace": "other"}),
            ("elsewhere", {"host": f"other-{host_name()}"}),
        ):
            other = values | {"process": values["process"] | changed}
            (path.parent / f"{name}.json").write_text(json.dumps(other))
        (path.parent / "5.json").unlink()
        assert only(home).instance == values["instance"]


def test_what_a_killed_gateway_left(hermes: Hermes, waiting: GatewayCommand) -> None:
    left = set(files(hermes.home))
    assert left
    waiting.kill()
    assert local_gateways(hermes.home, "default") == []
    for command in ("status", "stop", "restart"):
        result = hermes.call("gateway", command)
        assert (result.code, result.out) == (3, "")
    kept = hermes.home / "config.yaml"
    stale = hermes.home / "gateway" / "run" / "1-x.json"
    (path,) = (each for each in left if each.suffix == ".json")
    stale.write_text(json.dumps(json.loads(path.read_text()) | {"socket": str(kept)}))
    with RunFile(hermes.home, "default", "1.0"):
        assert not left & set(files(hermes.home))
        assert not stale.exists()
    assert kept.exists()


def test_one_that_lives_is_left_alone(hermes: Hermes, waiting: GatewayCommand) -> None:
    with RunFile(hermes.home, "default", "1.0"):
        assert len(local_gateways(hermes.home, "default")) == 2
    found = only(hermes.home)
    assert found.process.pid == waiting.pid
    answer = found.ask(PATIENCE)
    assert answer is not None
    assert answer["state"] == "waiting"


@pytest.mark.fault(
    "A gateway hangs, and its database is unavailable",
    "`hermes gateway status` says that it does not answer; `stop` kills it when the time is over",
    on="postgresql",
)
def test_one_that_hangs_is_killed(hermes: Hermes, waiting: GatewayCommand) -> None:
    waiting.signal(signal.SIGSTOP)
    status = hermes.call("gateway", "status")
    assert status.code == 0
    assert f"Running: process {waiting.pid} on " in status.out
    assert "\n  does not answer; if this persists, run: hermes gateway stop\n" in status.out
    stopped = hermes.call("gateway", "stop", "--timeout", "0", "--json")
    told = {"stopped": [], "left_alone": [], "killed": [waiting.pid]}
    assert (stopped.code, stopped.json) == (0, told)
    assert waiting.wait() == -signal.SIGKILL


def test_a_restart_that_fails_is_told(hermes: Hermes, waiting: GatewayCommand) -> None:
    (hermes.home / "config.yaml").write_text(AWAY.replace("api:", "unknown:"))
    result = hermes.call("gateway", "restart")
    assert result.code == 1
    assert f"Process {waiting.pid} ended and did not restart" in result.err


def test_a_home_in_which_nothing_can_be_written(hermes: Hermes) -> None:
    """Without a run file it runs all the same."""
    (hermes.home / "gateway").write_text("in the way")
    command = GatewayCommand(hermes)
    try:
        command.wait_for_line("no run file in ")
        command.wait_for_line("waits for its database")
        command.signal(signal.SIGTERM)
        assert command.wait() == 0
    finally:
        command.kill()


def test_no_thread_is_left_when_it_is_removed(tmp_path: Path) -> None:
    """One that runs while the interpreter ends may abort the process."""
    before = threading.active_count()
    with RunFile(tmp_path, "default", "1"):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before
