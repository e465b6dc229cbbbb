"""Handles in processes that are interrupted, exit, or fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from tests.storage.async_db.stores import PATIENT, contents, written_to

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "test")
    return tmp_path / "state.db"


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    search = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-m", "tests.storage.async_db.programs", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": search},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def stored(path: Path) -> list[str]:
    with SessionDB(path) as db:
        return contents(db.get_messages("s"))


def test_ctrl_c_frees_the_caller_and_the_write_is_finished(path: Path) -> None:
    with start("append_until_interrupted", path, PATIENT) as process:
        with SessionDB(path) as db, written_to(db):
            assert said(process) == "waiting"
            process.send_signal(signal.SIGINT)
            assert said(process) == "cancelled"
        _, complaints = process.communicate()
    assert process.returncode == -signal.SIGINT, complaints
    assert "KeyboardInterrupt" in complaints
    assert stored(path) == ["late"]


def test_ctrl_c_ends_a_program_that_waits_for_the_lock(path: Path) -> None:
    # Long enough for Ctrl-C to come first, on a busy machine.
    with start("append_until_interrupted", path, 5.0) as process, SessionDB(path) as db:
        with written_to(db):
            assert said(process) == "waiting"
            process.send_signal(signal.SIGINT)
            assert process.wait() == -signal.SIGINT  # While the lock is still held.
        process.communicate()
    assert stored(path) == []


def test_two_interrupts_end_the_loop_at_once(path: Path) -> None:
    with start("append_until_interrupted", path, PATIENT) as process:
        with SessionDB(path) as db, written_to(db):
            assert said(process) == "waiting"
            process.send_signal(signal.SIGINT)
            assert said(process) == "cancelled"
            process.send_signal(signal.SIGINT)
        _, complaints = process.communicate()
    # Python says it with another status when the second one comes in the middle of something.
    assert process.returncode in (-signal.SIGINT, 1)
    assert complaints.endswith("KeyboardInterrupt\n")
    assert stored(path) == ["late"]


def test_a_process_that_closes_nothing_ends_when_its_calls_have(path: Path) -> None:
    with start("append_and_forget", path, PATIENT) as process:
        with SessionDB(path) as db, written_to(db):
            assert said(process) == "waiting"
            assert said(process) == "the loop has ended"
        _, complaints = process.communicate()
    assert (process.returncode, complaints) == (0, "")
    assert stored(path) == ["late"]


def test_a_forked_process_has_threads_of_its_own(path: Path) -> None:
    with start("fork", path) as process:
        _, complaints = process.communicate()
    assert (process.returncode, complaints) == (0, "")
    assert sorted(stored(path)) == ["before", "child", "parent"]
