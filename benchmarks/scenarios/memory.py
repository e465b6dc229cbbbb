"""The memory that exporting and migrating take, for a store and for a fifth of it.

Each is a command in a process of its own, whose peak the kernel reports. What grows with the store
shows in the ratio of the two; the smaller one is large enough to fill the caches of the database,
which are bounded.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measures import Metrics
from benchmarks.scenarios.base import Job, Scenario, StoredRowsDiffer
from benchmarks.scenarios.prepared import MOVED, MOVED_FIFTH

#: The kernel counts in KiB, except on macOS.
_UNIT = 1 if sys.platform == "darwin" else 1024


def _peak_mb(job: Job, *arguments: str) -> float:
    home = job.scratch / arguments[1]
    home.mkdir()
    config = f"sessiondb:\n  sqlite:\n    path: {job.store}\n"
    (home / "config.yaml").write_text(config, encoding="utf-8")
    environment = {"PATH": os.defpath, "HOME": str(home), "HERMES_HOME": str(home)}
    command = [str(Path(sys.executable).parent / "hermes-sessions"), *arguments, "--plain"]
    output = home / "output.txt"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            command, cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command[1:]} failed: {output.read_text(errors='replace')[-500:]}")
    return usage.ru_maxrss * _UNIT / 1e6


def _run(job: Job) -> Metrics:
    exported, copied = job.scratch / "all.jsonl", job.scratch / "copied.db"
    peaks = {
        "export_mb": _peak_mb(job, "sessions", "export", str(exported)),
        "migrate_mb": _peak_mb(
            job, "sessiondb", "migrate", "--from", str(job.store), "--to", str(copied)
        ),
    }
    sessions = messages = 0
    for session in job.stored_sessions():
        sessions += 1
        messages += len(session.messages)
    with exported.open("rb") as lines:
        found = sum(1 for _ in lines)
    store = job.opponent.open(copied)
    stored = store.count_messages()
    store.close()
    if (found, stored) != (sessions, messages):
        raise StoredRowsDiffer(f"{found} sessions exported, {stored} messages migrated")
    return peaks


MEMORY = Scenario(
    name="memory",
    title="memory of exporting and migrating",
    opponents=("ours",),
    prepared=MOVED,
    run=_run,
)
MEMORY_FIFTH = Scenario(
    name="memory-fifth",
    title="memory of exporting and migrating a fifth",
    opponents=("ours",),
    prepared=MOVED_FIFTH,
    run=_run,
)
