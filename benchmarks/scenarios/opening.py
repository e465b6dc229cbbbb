"""Open a large store that is up to date."""

from __future__ import annotations

import time

from benchmarks.measures import Metrics, percentile
from benchmarks.scenarios.base import Job, Scenario, StoredRowsDiffer
from benchmarks.scenarios.prepared import MESSAGES


def _run(job: Job) -> Metrics:
    session = next(iter(job.stored_sessions()))
    opened: list[float] = []
    answered: list[float] = []
    for _ in range(job.count("openings")):
        start = time.perf_counter()
        store = job.open()
        opened.append(time.perf_counter() - start)
        contents = store.contents(session.id)
        answered.append(time.perf_counter() - start)
        store.close()
        if len(contents) != len(session.messages):
            raise StoredRowsDiffer(f"session {session.id} lost messages")
    return {
        "p50_ms": percentile(opened, 0.5) * 1000,
        "worst_ms": max(opened) * 1000,
        "first_answer_p50_ms": percentile(answered, 0.5) * 1000,
    }


OPENING = Scenario(
    name="opening",
    title="open a large store",
    opponents=("ours", "hermes-0.13", "hermes-0.19"),
    prepared=MESSAGES,
    changes_store=False,
    parameters=lambda size, _opponent: {"openings": size.openings},
    run=_run,
)
