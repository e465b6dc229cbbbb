"""`hermes gateway stop` and `restart`: only gateway processes are signalled."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes_sessions.cli.gateway import stop_restart
from hermes_sessions.storage.host_processes import ProcessMatch, host_name, new_process_id
from hermes_sessions.storage.repositories.processes import Process, Processes
from tests.cli.harness import Hermes

Child = subprocess.Popen[bytes]


@pytest.fixture
def hermes(tmp_path: Path) -> Hermes:
    return Hermes(tmp_path)


@pytest.fixture
def children() -> Iterator[list[Child]]:
    """Two programs that end by themselves, with 0, as soon as nothing more can come."""
    program = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with ExitStack() as stack:
        started = [
            stack.enter_context(Child(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for _ in range(2)
        ]
        for child in started:
            assert child.stdout is not None
            child.stdout.readline()
        yield started


def register(hermes: Hermes, child: Child, process_id: str, host: str | None = None) -> None:
    with hermes.db() as db:
        Processes(db.store).register(
            "default", "gateway", process_id=process_id, host=host or host_name(), pid=child.pid
        )


def ended_by_itself(child: Child) -> bool:
    child.communicate()
    return child.returncode == 0


@pytest.mark.parametrize("command", ["stop", "restart"])
def test_a_number_that_another_program_has_now(
    hermes: Hermes, children: list[Child], command: str
) -> None:
    child = children[0]
    register(hermes, child, "1.started-never")
    result = hermes.call("gateway", command)
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"Error: No gateway is running on this machine. Process {child.pid} is now another "
        f"program and was left alone: the gateway that had this pid is gone. "
        f"For details, run: hermes gateway status\n"
    )
    status = hermes.call("gateway", "status")
    assert status.code == 1
    assert (
        f"Silent: process {child.pid}, last heartbeat just now, its pid now belongs to another "
        f"program; its turns continue when a gateway starts\n"
    ) in status.out
    assert ended_by_itself(child)


@pytest.mark.parametrize(
    ("command", "advice"), [("stop", "kill -TERM"), ("restart", "kill -HUP")], ids=str
)
def test_one_of_which_nothing_is_known(
    hermes: Hermes, children: list[Child], command: str, advice: str
) -> None:
    child = children[0]
    register(hermes, child, "1")
    result = hermes.call("gateway", command)
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"Error: No gateway was signalled. Process {child.pid} was left alone, because it may "
        f"not be the gateway. If you know that it is, run `{advice} {child.pid}`. "
        f"For details, run: hermes gateway status\n"
    )
    assert ended_by_itself(child)


def test_the_gateway_is_stopped_and_the_other_is_not(hermes: Hermes, children: list[Child]) -> None:
    gateway, stranger = children
    register(hermes, stranger, "1.started-never")
    register(hermes, gateway, new_process_id(gateway.pid))
    result = hermes.call("gateway", "stop", "--json")
    assert (result.code, result.json) == (
        0,
        {"stopped": [gateway.pid], "left_alone": [stranger.pid]},
    )
    assert result.err.startswith(f"Process {stranger.pid} is now another program")
    assert gateway.wait() == -signal.SIGTERM
    assert ended_by_itself(stranger)


def test_one_that_another_got_the_number_of_at_this_moment(
    hermes: Hermes, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(hermes, children[0], new_process_id(children[0].pid))

    def found(_process: Process, _number: signal.Signals) -> ProcessMatch:
        return "another"

    monkeypatch.setattr(stop_restart, "send_signal", found)
    result = hermes.call("gateway", "stop", "--no-wait")
    assert result.code == 1
    assert "is now another program" in result.err


def test_a_gateway_of_another_user(
    hermes: Hermes, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(hermes, children[0], new_process_id(children[0].pid))

    def refused(_process: Process, _number: signal.Signals) -> ProcessMatch:
        raise PermissionError

    monkeypatch.setattr(stop_restart, "send_signal", refused)
    result = hermes.call("gateway", "stop")
    assert result.code == 1
    assert f"Process {children[0].pid} is a gateway of another user" in result.err


def test_one_that_does_not_stop_is_killed(hermes: Hermes) -> None:
    program = (
        "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program]
    with Child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        register(hermes, child, new_process_id(child.pid))
        result = hermes.call("gateway", "stop", "--timeout", "0")
        assert result.code == 0
        assert result.out.startswith(f"Process {child.pid} did not stop in time and was killed. ")
        assert child.wait() == -signal.SIGKILL


def test_one_that_runs_elsewhere(hermes: Hermes, children: list[Child]) -> None:
    """Numbers mean nothing there."""
    child = children[0]
    register(hermes, child, new_process_id(child.pid), host="elsewhere#1")
    result = hermes.call("gateway", "stop")
    assert result.code == 1
    assert result.err == (
        "Error: No gateway is running on this machine. Running on: elsewhere. "
        "For details, run: hermes gateway status\n"
    )
    assert ended_by_itself(child)
