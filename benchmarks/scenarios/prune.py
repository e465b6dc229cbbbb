"""Prune thousands of sessions while a second process keeps writing.

The bystander appends through the same library, an append every two milliseconds; its longest
wait during the pruning is the longest write lock as a user would feel it.
"""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from benchmarks.corpus import CorpusMessage, CorpusSession
from benchmarks.measures import Metrics
from benchmarks.opponents import OPPONENTS, AgentStore
from benchmarks.scenarios.base import Job, Parameters, Scenario, StoredRowsDiffer
from benchmarks.scenarios.children import gather
from benchmarks.scenarios.prepared import MESSAGES
from benchmarks.sizes import Size

PAUSE_SECONDS = 0.002
BYSTANDER = CorpusSession(
    id="bystander",
    source="cli",
    model="none",
    system_prompt="",
    parent_id=None,
    end_reason=None,
    messages=[],
)


def _stand_by(opponent: str, path: Path, ready: Event, stop: Event, results: Any) -> None:
    """Append until told to stop; reports the start and the end of every append."""
    store = OPPONENTS[opponent].open(path)
    store.create_session(BYSTANDER)
    message = CorpusMessage(role="user", content="still here", kind="prose")
    spans: list[tuple[float, float]] = []
    while not stop.is_set():
        start = time.monotonic()
        store.append(BYSTANDER.id, message)
        spans.append((start, time.monotonic()))
        ready.set()
        time.sleep(PAUSE_SECONDS)
    store.close()
    results.put(spans)


def _leave_ended(job: Job, store: AgentStore, wanted: int) -> tuple[int, int]:
    """Reopen ended sessions until about ``wanted`` are left, whole lineages only.

    Returns the number of ended sessions and of their messages.
    """
    sessions = messages = 0
    is_enough = False
    for session in job.stored_sessions():
        if session.end_reason is None:
            break
        is_enough = is_enough or (sessions >= wanted and session.parent_id is None)
        if is_enough:
            store.reopen(session.id)
        else:
            sessions, messages = sessions + 1, messages + len(session.messages)
    return sessions, messages


def _run(job: Job) -> Metrics:
    store = job.open_agent()
    sessions, messages = _leave_ended(job, store, job.count("sessions"))
    before = store.count_messages()
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    results: Any = context.Queue()
    bystander = context.Process(
        target=_stand_by, args=(job.opponent.name, job.store, ready, stop, results)
    )
    bystander.start()
    if not ready.wait(timeout=60):
        raise RuntimeError("the bystander did not start writing in a minute")
    started = time.monotonic()
    pruned = store.prune_ended()
    finished = time.monotonic()
    stop.set()
    spans: list[tuple[float, float]] = gather([bystander], results)[0]
    left = store.count_messages()
    store.close()
    if pruned != sessions or left != before - messages + len(spans):
        raise StoredRowsDiffer(
            f"pruned {pruned} of {sessions} sessions; {left} messages left,"
            f" {before - messages + len(spans)} expected"
        )
    waits = [end - start for start, end in spans if end > started and start < finished]
    return {
        "sessions": float(sessions),
        "seconds": finished - started,
        "per_session_ms": (finished - started) / sessions * 1000,
        "longest_wait_ms": max(waits, default=0.0) * 1000,
    }


def _parameters(size: Size, opponent: Any) -> Parameters:
    wanted = size.pruned_sessions_reference if opponent.is_reference else size.pruned_sessions
    return {"sessions": wanted}


PRUNE = Scenario(
    name="prune",
    title="prune while another process writes",
    opponents=("ours", "hermes-0.13", "hermes-0.19"),
    prepared=MESSAGES,
    parameters=_parameters,
    run=_run,
)
