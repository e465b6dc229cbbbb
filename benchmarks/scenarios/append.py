"""Append one message at a time, one process: into an empty store and into a large one."""

from __future__ import annotations

import time

from benchmarks.corpus import CorpusSpec
from benchmarks.measures import Metrics, latency_metrics
from benchmarks.scenarios.base import (
    Job,
    Scenario,
    append_timed,
    check_stored,
    reference_seconds,
)
from benchmarks.scenarios.prepared import MESSAGES


def _run(job: Job) -> Metrics:
    sessions = job.sessions_to_append()
    store = job.open()
    before = store.count_messages()
    used_before = time.process_time()
    latencies, acknowledged = append_timed(store, sessions, seconds=job.seconds)
    used = time.process_time() - used_before
    store.close()
    check_stored(job, acknowledged, already_there=before)
    # The processor's time says what the code costs even when the disk or the machine is busy.
    return latency_metrics(latencies) | {"cpu_us": used / len(latencies) * 1e6}


APPEND = Scenario(
    name="append",
    title="append, one process",
    opponents=(
        "ours",
        "ours-normal",
        "hermes-0.13",
        "hermes-0.19",
        "openai-agents",
        "langgraph",
        "raw",
        "raw-normal",
    ),
    corpus=lambda size: CorpusSpec(name="append", messages=size.appended_messages),
    run=_run,
)

APPEND_LARGE = Scenario(
    name="append-large",
    title="append into a large store",
    opponents=("ours", "hermes-0.13", "hermes-0.19", "raw"),
    corpus=lambda size: CorpusSpec(name="more", messages=size.large_appends),
    prepared=MESSAGES,
    parameters=reference_seconds,
    run=_run,
)

APPEND_POSTGRESQL = Scenario(
    name="append-postgresql",
    title="append, one process, PostgreSQL",
    opponents=(
        "ours-postgresql",
        "psycopg",
        "openai-agents-postgresql",
        "langgraph-postgresql",
        "agno-postgresql",
        "google-adk-postgresql",
    ),
    corpus=lambda size: CorpusSpec(name="append", messages=size.appended_messages),
    run=_run,
)

APPEND_MYSQL = Scenario(
    name="append-mysql",
    title="append, one process, MariaDB",
    opponents=("ours-mysql", "pymysql"),
    corpus=lambda size: CorpusSpec(name="append", messages=size.appended_messages),
    run=_run,
)
