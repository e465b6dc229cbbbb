"""List the 20 most recently active of very many sessions."""

from __future__ import annotations

import time

from benchmarks.corpus import CorpusMessage, CorpusSession
from benchmarks.measures import Metrics, latency_metrics
from benchmarks.scenarios.base import Job, Scenario, StoredRowsDiffer, reference_seconds
from benchmarks.scenarios.prepared import SESSIONS, SESSIONS_LARGE

LISTED = 20
TOUCHED = 40
CALLS = 200


def _lone_sessions(job: Job) -> list[str]:
    """Sessions without lineage, spread over the store: they are listed under their own id."""
    lone: list[str] = []
    previous: CorpusSession | None = None
    for session in job.stored_sessions():
        if previous is not None and session.parent_id is None and previous.parent_id is None:
            lone.append(previous.id)
        previous = session
    return lone[:: max(1, len(lone) // TOUCHED)][:TOUCHED]


def _run(job: Job) -> Metrics:
    store = job.open_agent()
    touched = _lone_sessions(job)
    for session_id in touched:
        message = CorpusMessage(role="user", content="one more thing", kind="prose")
        store.append(session_id, message)
    expected = list(reversed(touched))[:LISTED]
    latencies: list[float] = []
    deadline = time.perf_counter() + job.seconds
    while len(latencies) < CALLS and (len(latencies) < 3 or time.perf_counter() < deadline):
        start = time.perf_counter()
        listed = store.list_recent(LISTED)
        latencies.append(time.perf_counter() - start)
        if listed != expected:
            raise StoredRowsDiffer(f"listed {listed[:3]}..., expected {expected[:3]}...")
    store.close()
    return latency_metrics(latencies)


LISTING = Scenario(
    name="listing",
    title="list the 20 most recently active",
    opponents=("ours", "hermes-0.13", "hermes-0.19"),
    prepared=SESSIONS,
    parameters=reference_seconds,
    run=_run,
)

LISTING_LARGE = Scenario(
    name="listing-large",
    title="list the 20 most recently active of a million",
    opponents=("ours",),
    prepared=SESSIONS_LARGE,
    is_part_of=lambda size: size.listed_sessions_large > 0,
    run=_run,
)

LISTING_POSTGRESQL = Scenario(
    name="list-postgresql",
    title="list the 20 most recently active, PostgreSQL",
    opponents=("ours-postgresql",),
    prepared=SESSIONS,
    run=_run,
)
