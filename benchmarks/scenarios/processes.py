"""Several processes append to one file at the same time, each to its own session."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from benchmarks.corpus import CorpusSession, CorpusSpec
from benchmarks.measures import Metrics, latency_metrics
from benchmarks.opponents import OPPONENTS
from benchmarks.scenarios.base import Job, Scenario, append_timed, check_stored
from benchmarks.scenarios.children import gather
from benchmarks.sizes import Size


@dataclass(frozen=True)
class _Share:
    """What one process did, by the clock that all processes of a machine share."""

    started: float
    finished: float
    latencies: list[float]
    acknowledged: list[CorpusSession]


def _append_share(
    opponent: str, path: Path, session: CorpusSession, start: Barrier, results: Any
) -> None:
    store = OPPONENTS[opponent].open(path)
    start.wait()
    started = time.monotonic()
    latencies, acknowledged = append_timed(store, [session])
    finished = time.monotonic()
    store.close()
    results.put(_Share(started, finished, latencies, acknowledged))


def _run(job: Job) -> Metrics:
    # None continues another: nothing says which process comes first.
    sessions = [
        replace(session, parent_id=None, end_reason=None) for session in job.sessions_to_append()
    ]
    job.open().close()  # the file exists before the processes meet on it
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(len(sessions))
    results: Any = context.Queue()
    processes = [
        context.Process(
            target=_append_share, args=(job.opponent.name, job.store, session, start, results)
        )
        for session in sessions
    ]
    for process in processes:
        process.start()
    shares: list[_Share] = gather(processes, results)
    check_stored(job, [session for share in shares for session in share.acknowledged])
    durations = [share.finished - share.started for share in shares]
    latencies = [latency for share in shares for latency in share.latencies]
    span = max(share.finished for share in shares) - min(share.started for share in shares)
    return latency_metrics(latencies) | {
        "per_second": len(latencies) / span,
        "slowest_to_fastest": max(durations) / min(durations),
        "lost": float(sum(len(s.messages) for s in sessions) - len(latencies)),
    }


def _corpus(size: Size) -> CorpusSpec:
    return CorpusSpec(
        name="shared",
        sessions=size.processes,
        messages_per_session=size.messages_per_process,
        fixed_length=True,
    )


PROCESSES = Scenario(
    name="processes",
    title="8 processes on one file",
    opponents=(
        "ours",
        "ours-normal",
        "hermes-0.13",
        "hermes-0.19",
        "raw",
        "raw-normal",
    ),
    corpus=_corpus,
    run=_run,
)

PROCESSES_POSTGRESQL = Scenario(
    name="processes-postgresql",
    title="8 processes on PostgreSQL",
    opponents=("ours-postgresql", "psycopg"),
    corpus=_corpus,
    run=_run,
)
