"""Append to a large store while another thread of the same process lists and reads it."""

from __future__ import annotations

import itertools
import threading

from benchmarks.corpus import CorpusSpec
from benchmarks.measures import Metrics, latency_metrics
from benchmarks.opponents import AgentStore
from benchmarks.scenarios.base import (
    Job,
    Scenario,
    append_timed,
    check_stored,
    reference_seconds,
)
from benchmarks.scenarios.prepared import MESSAGES

READ_SESSIONS = 200


class _Reader(threading.Thread):
    """Lists the newest sessions and reads one of many, over and over, until told to stop."""

    def __init__(self, store: AgentStore, session_ids: list[str]) -> None:
        super().__init__(name="reader")
        self._store = store
        self._session_ids = session_ids
        self._stop_requested = threading.Event()
        self.has_read = threading.Event()
        self.reads = 0

    def run(self) -> None:
        for session_id in itertools.cycle(self._session_ids):
            if self._stop_requested.is_set():
                return
            if not self._store.list_recent(20) or not self._store.contents(session_id):
                raise RuntimeError(f"nothing to read in session {session_id}")
            self.reads += 1
            self.has_read.set()

    def stop(self) -> None:
        self._stop_requested.set()
        self.join()


def _run(job: Job) -> Metrics:
    sessions = job.sessions_to_append()
    ids = [session.id for session in itertools.islice(job.stored_sessions(), READ_SESSIONS)]
    store = job.open_agent()
    before = store.count_messages()
    reader = _Reader(store, ids)
    reader.start()
    if not reader.has_read.wait(timeout=120):
        raise RuntimeError("the reader did not finish its first round in two minutes")
    latencies, acknowledged = append_timed(store, sessions, seconds=job.seconds)
    reader.stop()
    store.close()
    check_stored(job, acknowledged, already_there=before)
    return latency_metrics(latencies) | {"reads_per_second": reader.reads / sum(latencies)}


READING = Scenario(
    name="reading",
    title="append while a thread reads",
    opponents=("ours", "hermes-0.13", "hermes-0.19"),
    corpus=lambda size: CorpusSpec(name="more", messages=size.appends_while_reading),
    prepared=MESSAGES,
    parameters=reference_seconds,
    run=_run,
)
