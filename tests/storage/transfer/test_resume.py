"""A killed copy resumes where it stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hermes_sessions.errors import StoreUnavailable
from tests.servers.server_processes import Server
from tests.storage.export_samples import fill, ticking
from tests.storage.transfer.stores import (
    KINDS,
    NewStore,
    compared,
    copy_of,
    exported,
    move,
    opened,
    rows,
)

ROOT = Path(__file__).parents[3]


def run_and_die(source: str, target: str, phase: str, step: int) -> int:
    """Run a copy in a process that kills itself at a step of a phase; return how it ended."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.storage.transfer.killed_copy",
            source,
            target,
            phase,
            str(step),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=300,
    )
    return done.returncode


def long_store(url: str) -> str:
    return copy_of(fill_long, url)


def fill_long(url: str) -> None:
    with opened(url, clock=ticking(), durability="normal") as db:
        fill(db)
        for number in range(150):
            db.create_session(f"many {number:03}", "cli")
            db.append_message(f"many {number:03}", "user", f"message {number}")
        db.create_session("long", "cli")
        db.append_messages("long", [{"role": "user", "content": f"{n}"} for n in range(3500)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.fault(
    "Killed while a store is copied to another database",
    "The source is as it was; the next run completes the copy, proven by checksums",
)
def test_killed_at_every_turn(new_store: NewStore, kind: str) -> None:
    source, target = long_store(new_store("sqlite")), new_store(kind)
    copied = [0]
    # Each run continues where the one before it was killed.
    while run_and_die(source, target, "Copying", len(copied)) == -signal.SIGKILL:
        [[sessions]] = rows(target, "SELECT COUNT(*) FROM sessions")
        copied.append(sessions)
    assert copied == sorted(copied)
    assert len(copied) > 3
    assert run_and_die(source, target, "Comparing", 3) == -signal.SIGKILL
    report = move(source, target)
    assert (report.copied, report.differences) == (0, [])
    assert exported(source) == exported(target)
    assert compared(source, target).differences == []


def test_killed_in_a_long_session_and_in_the_index(new_store: NewStore) -> None:
    source, target = long_store(new_store("sqlite")), new_store("sqlite")
    step = 1
    while True:
        assert run_and_die(source, target, "Copying", step) == -signal.SIGKILL
        [[there]] = rows(target, "SELECT COUNT(*) FROM messages WHERE session_id = ?", "long")
        if 0 < there < 3500:
            break
        step += 1
    entry = 'SELECT "row" FROM foreign_rows WHERE row_key = ?'
    assert rows(target, entry, "long") == [("begun",)]
    assert run_and_die(source, target, "Indexing", 4) == -signal.SIGKILL
    assert rows(target, entry, "long") != [("begun",)]
    report = move(source, target)
    assert (report.copied, report.differences) == (0, [])
    assert report.indexed == report.messages
    assert exported(source) == exported(target)


def test_what_a_killed_copy_left_may_be_deleted_in_the_source(new_store: NewStore) -> None:
    source, target = long_store(new_store("sqlite")), new_store("sqlite")
    step = 1
    while not rows_of_long(source, target, step):
        step += 1
    with opened(source) as db:
        db.delete_session("long")
    report = move(source, target)
    assert report.differences == []
    assert exported(source) == exported(target)


def rows_of_long(source: str, target: str, step: int) -> int:
    assert run_and_die(source, target, "Copying", step) == -signal.SIGKILL
    return len(rows(target, "SELECT id FROM messages WHERE session_id = ?", "long"))


class Restarting:
    """Restarts a server when a copy has come so far."""

    def __init__(self, server: Server, phase: str) -> None:
        self._server = server
        self._phase: str | None = phase

    def __call__(self, phase: str, _done: int, _total: int) -> None:
        if phase == self._phase:
            self._phase = None
            self._server.restart()


@pytest.mark.parametrize("phase", ["Copying", "Comparing", "Indexing"])
def test_a_target_that_is_restarted(new_store: NewStore, postgresql: Server, phase: str) -> None:
    source, target = long_store(new_store("sqlite")), new_store("postgresql")
    report = move(source, target, on_progress=Restarting(postgresql, phase))
    assert report.differences == []
    assert compared(source, target).differences == []


def test_a_source_that_is_restarted(new_store: NewStore, postgresql: Server) -> None:
    source, target = long_store(new_store("postgresql")), new_store("sqlite")
    # Between two reads the restart is not even noticed; amid one, the copy ends and is begun again.
    with suppress(StoreUnavailable):
        move(source, target, on_progress=Restarting(postgresql, "Copying"))
    assert move(source, target).differences == []
    assert exported(source) == exported(target)
