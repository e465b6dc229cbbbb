"""Append message by message until everything can be found: the index work is part of the price."""

from __future__ import annotations

import time

from benchmarks.corpus import CorpusSession, CorpusSpec
from benchmarks.measures import Metrics
from benchmarks.scenarios.base import Job, Scenario, StoredRowsDiffer, append_timed, check_stored

#: Planted in every 97th message: finding each of them says that the whole is searchable.
PLANTED = "quillfeather"


def _run(job: Job) -> Metrics:
    sessions = job.sessions_to_append()
    expected = _number_planted(sessions)
    store = job.open_agent()
    used_before, start = time.process_time(), time.perf_counter()
    latencies, acknowledged = append_timed(store, sessions)
    appended = time.perf_counter() - start
    store.complete_index()
    found = store.search(PLANTED, expected + 10)
    total = time.perf_counter() - start
    used = time.process_time() - used_before
    store.close()
    if len(found) != expected:
        raise StoredRowsDiffer(f"{expected} messages have {PLANTED!r}, {len(found)} were found")
    check_stored(job, acknowledged)
    count = len(latencies)
    return {
        "calls": float(count),
        "per_second": count / total,
        "appended_per_second": count / appended,
        "seconds": total,
        "cpu_us": used / count * 1e6,
    }


def _number_planted(sessions: list[CorpusSession]) -> int:
    contents = (message.content for session in sessions for message in session.messages)
    return sum(PLANTED in content for content in contents)


INDEXING = Scenario(
    name="indexing",
    title="append until searchable",
    opponents=("ours", "ours-normal", "hermes-0.13", "hermes-0.19"),
    corpus=lambda size: CorpusSpec(name="append", messages=size.indexed_messages),
    run=_run,
)
