"""Process ids are reused: which process is meant, and which is signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.storage import host_processes
from hermes_sessions.storage.host_processes import (
    ProcessMatch,
    identify_process,
    is_running,
    new_process_id,
    send_signal,
)
from hermes_sessions.storage.repositories.processes import Process

#: No process has this number.
UNUSED_PID = 2**22 + 1


@pytest.fixture(params=["/proc", "ps"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What Linux tells, and what other systems do."""
    if request.param == "ps":
        monkeypatch.setattr(host_processes, "_PROCESSES", tmp_path)
    elif not Path("/proc/self/stat").exists():
        pytest.skip("this system has no /proc")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends by itself, with 0, as soon as nothing more can come."""
    program = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child


def registered(pid: int | None, process_id: str) -> Process:
    return Process(process_id, "bot", "gateway", "here", pid, None, 0.0, 0.0)


def test_every_row_has_an_id_of_its_own() -> None:
    assert new_process_id(os.getpid()) != new_process_id(os.getpid())


def test_who_is_recognised(child: subprocess.Popen[bytes]) -> None:
    row = registered(child.pid, new_process_id(child.pid))
    assert identify_process(row) == "it"
    assert is_running(row)


def test_the_answer_does_not_depend_on_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    row = registered(os.getpid(), new_process_id(os.getpid()))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert identify_process(row) == "it"


@pytest.mark.parametrize(
    ("process_id", "found", "runs"),
    [("1.started-never", "another", False), ("1", "unknown", True)],
    ids=["another", "unknown"],
)
def test_a_number_of_another_process(
    child: subprocess.Popen[bytes], process_id: str, found: ProcessMatch, runs: bool
) -> None:
    row = registered(child.pid, process_id)
    assert identify_process(row) == found
    assert is_running(row) == runs
    assert send_signal(row, signal.SIGTERM) == found
    child.communicate()
    assert child.returncode == 0


def test_an_ended_child_that_was_not_waited_for(child: subprocess.Popen[bytes]) -> None:
    row = registered(child.pid, new_process_id(child.pid))
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identify_process(row) == "gone"
    child.wait()
    assert identify_process(row) == "gone"
    assert send_signal(row, signal.SIGTERM) == "gone"


@pytest.mark.parametrize("pid", [UNUSED_PID, 0, -1], ids=["unused", "own group", "all processes"])
def test_a_number_that_no_process_has(pid: int) -> None:
    assert not is_running(registered(pid, "1"))
    assert send_signal(registered(pid, new_process_id(pid)), signal.SIGCONT) == "gone"


def test_no_number() -> None:
    assert identify_process(registered(None, "1")) == "unknown"
    assert send_signal(registered(None, "1"), signal.SIGTERM) == "unknown"


@pytest.mark.parametrize("can_hold", [True, False], ids=["as the system can", "by its number"])
def test_the_one_is_signalled(
    child: subprocess.Popen[bytes], can_hold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_hold:
        monkeypatch.setattr(host_processes, "_take_hold_of", lambda _pid: None)
    row = registered(child.pid, new_process_id(child.pid))
    assert send_signal(row, signal.SIGTERM) == "it"
    assert child.wait() == -signal.SIGTERM


def test_a_system_that_tells_nothing(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = registered(child.pid, new_process_id(child.pid))
    monkeypatch.setattr(host_processes, "_PROCESSES", tmp_path)
    monkeypatch.setattr(host_processes, "_PS", str(tmp_path / "ps"))
    assert identify_process(row) == "unknown"
    assert send_signal(row, signal.SIGTERM) == "unknown"
    unmarked = registered(child.pid, new_process_id(child.pid))
    child.communicate()
    assert child.returncode == 0
    assert identify_process(unmarked) == "gone"
