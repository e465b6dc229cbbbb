"""Which gateways of a bot are alive, as other processes see it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.gateway.overview import find_gateways
from hermes_sessions.storage.host_processes import host_name, new_process_id
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions_testing.clock import FrozenClock

#: No process has this number.
NO_PROCESS = 2**22 + 1


@pytest.mark.parametrize(
    ("host", "pid", "name", "silent_for", "lives"),
    [
        ("elsewhere#1", NO_PROCESS, "1", 59, True),
        ("elsewhere#1", NO_PROCESS, "1", 61, False),
        ("elsewhere#1", os.getpid(), "1.started-never", 59, True),
        (host_name(), os.getpid(), new_process_id(os.getpid()), 59, True),
        (host_name(), os.getpid(), "1", 59, True),
        (host_name(), NO_PROCESS, "1", 0, False),
        (host_name(), os.getpid(), "1.started-never", 0, False),
    ],
    ids=[
        "elsewhere",
        "silent elsewhere",
        "elsewhere with a number that is used here",
        "here",
        "here without a start time",
        "killed here",
        "killed here and another has its number",
    ],
)
def test_who_lives(
    tmp_path: Path, host: str, pid: int, name: str, silent_for: float, lives: bool
) -> None:
    clock = FrozenClock()
    with SessionDB(tmp_path / "state.db", clock=clock) as db:
        process = Processes(db.store).register(
            "bot", "gateway", process_id=name, host=host, pid=pid
        )
        clock.advance(silent_for)
        living, silent = find_gateways(db.store, "bot", dead_after=60)
        assert [one.id for one in (living if lives else silent)] == [process.id]
        assert len(living) + len(silent) == 1
        # A gateway with a longer heartbeat interval is not dead.
        clock.advance(600)
        assert bool(find_gateways(db.store, "bot", dead_after=3600).living) == (
            lives or host != host_name()
        )
