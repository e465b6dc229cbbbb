"""Several processes on the lanes of one store, some killed at work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.repositories.lane_transitions import history
from hermes_sessions.storage.repositories.lanes import Lanes
from hermes_sessions_testing.clock import NOON
from tests.lifecycle.assertions import require_whole
from tests.lifecycle.senders import DAY

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def start(verb: str, url: str, directory: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.lifecycle.programs", verb, url, str(directory)]
        + [str(argument) for argument in arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_several_processes_make_one_session_each(
    store_url: str, tmp_path: Path, long_run: bool
) -> None:
    """And when the lanes expire, one process resets each of them, and one tells the user."""
    chats, processes = (60, 8) if long_run else (6, 4)
    with SessionDB.from_url(store_url) as db:
        for day in range(2):
            programs = [
                start("arrive", store_url, tmp_path, NOON + 2 * day * DAY, chats, seed)
                for seed in range(processes)
            ]
            for program in programs:
                assert program.stdout is not None
                assert program.stdin is not None
                assert program.stdout.readline() == "ready\n", program.communicate()[1]
            for program in programs:
                assert program.stdin is not None
                program.stdin.write("go\n")
                program.stdin.flush()
            said = []
            for program in programs:
                out, complaints = program.communicate()
                assert program.returncode == 0, complaints
                said.append(json.loads(out))
            assert [one["sessions"] for one in said] == [said[0]["sessions"]] * processes
            assert all(len(ids) == 1 for ids in said[0]["sessions"].values())
            assert sum(one["notices"] for one in said) == chats
            assert db.session_count() == chats * (day + 1)
            require_whole(db)
        with db.provider.read() as tx:
            for lane in Lanes(db.store).page(tx, "default", limit=chats):
                assert [step.action for step in history(tx, lane.id)] == ["create", "reset"]


@pytest.mark.fault(
    "A gateway is killed while it changes lanes",
    "Each lane has one session; the next gateway continues",
)
def test_processes_that_are_killed(store_url: str, tmp_path: Path, long_run: bool) -> None:
    """Lanes and sessions fit together whenever they die, and nothing holds the others up."""
    with SessionDB.from_url(store_url, clock=lambda: NOON) as db:
        for round_ in range(20 if long_run else 2):
            programs = [
                start("live", store_url, tmp_path, NOON, 3, round_ * 10 + n) for n in range(3)
            ]
            for number, program in enumerate(programs):
                assert program.stdout is not None
                acknowledged = [program.stdout.readline().strip() for _ in range(3 + 4 * number)]
                assert all(acknowledged), program.stderr and program.stderr.read()
            for program in programs:
                program.kill()
            for program in programs:
                with program:
                    pass  # Ended, and its pipes closed.
            require_whole(db)
        assert db.session_count() > 3
