"""Load a long session as a conversation, against the bare SELECT of the same rows."""

from __future__ import annotations

import time

from benchmarks.measures import Metrics, median
from benchmarks.scenarios.base import Job, Scenario, StoredRowsDiffer
from benchmarks.scenarios.prepared import TRANSCRIPTS

REPETITIONS = 30


def _run(job: Job) -> Metrics:
    if job.opponent.select_rows is None:
        raise LookupError(f"{job.opponent.name} offers no bare read of its rows")
    transcript = list(job.stored_sessions())[-1]
    store = job.open_agent()
    select = job.opponent.select_rows(job.store)
    loads: list[float] = []
    selects: list[float] = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        conversation = store.conversation(transcript.id)
        loaded = time.perf_counter()
        rows = select(transcript.id)
        selected = time.perf_counter()
        loads.append(loaded - start)
        selects.append(selected - loaded)
        if not len(conversation) == len(rows) == len(transcript.messages):
            raise StoredRowsDiffer(
                f"{len(transcript.messages)} messages stored, {len(conversation)} resumed"
            )
        # Freeing one answer is not part of the next one's time.
        del conversation, rows
    store.close()
    return {
        "p50_ms": median(loads) * 1000,
        "select_ms": median(selects) * 1000,
        "to_select": median(loads) / median(selects),
    }


RESUME = Scenario(
    name="resume",
    title="resume a long session",
    opponents=("ours", "hermes-0.13", "hermes-0.19"),
    prepared=TRANSCRIPTS,
    changes_store=False,
    run=_run,
)
