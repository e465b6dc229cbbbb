"""How long importing the module and listing sessions from the command line take.

Processes are started and counted by the kernel's own accounting; the fastest of several starts
is taken, since everything else that happens on the machine can only add.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.corpus import CorpusSpec
from benchmarks.measures import Metrics
from benchmarks.scenarios.base import Job, Scenario, append_timed

BASELINE = "import sqlite3, json"
MODULE = "import hermes_state"
MESSAGES_IN_STORE = 500


@dataclass(frozen=True)
class _Cost:
    wall: float
    cpu: float


def _start(command: list[str], home: Path) -> _Cost:
    environment = {"PATH": os.defpath, "HOME": str(home), "HERMES_HOME": str(home)}
    output = home / "output.txt"
    with output.open("wb") as sink:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command[1:]} failed: {output.read_text(errors='replace')[-500:]}")
    return _Cost(wall, usage.ru_utime + usage.ru_stime)


def _run(job: Job) -> Metrics:
    home = job.scratch / "home"
    home.mkdir()
    store = job.opponent.open(home / "state.db")
    append_timed(store, job.sessions_to_append())
    store.close()
    programs = Path(sys.executable).parent
    own = programs / "hermes-sessions"
    command = own if own.exists() else programs / "hermes"
    commands = {
        "baseline": [sys.executable, "-c", BASELINE],
        "import": [sys.executable, "-c", MODULE],
        "list": [str(command), "sessions", "list"],
    }
    costs: dict[str, list[_Cost]] = {name: [] for name in commands}
    for repetition in range(job.count("starts") + 1):
        for name, arguments in commands.items():
            cost = _start(arguments, home)
            if repetition > 0:  # the first start of each fills caches
                costs[name].append(cost)
    wall = {name: min(cost.wall for cost in found) * 1000 for name, found in costs.items()}
    cpu = {name: min(cost.cpu for cost in found) * 1000 for name, found in costs.items()}
    return {
        "import_ms": wall["import"] - wall["baseline"],
        "import_cpu_ms": cpu["import"] - cpu["baseline"],
        "baseline_ms": wall["baseline"],
        "list_ms": wall["list"],
        "list_cpu_ms": cpu["list"],
    }


STARTUP = Scenario(
    name="startup",
    title="start-up",
    opponents=("ours", "hermes-0.13", "hermes-0.19"),
    corpus=lambda _size: CorpusSpec(name="home", messages=MESSAGES_IN_STORE),
    parameters=lambda size, _opponent: {"starts": size.process_starts},
    run=_run,
)
