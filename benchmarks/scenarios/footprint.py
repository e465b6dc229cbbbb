"""The size of a searchable store's file, as a multiple of the text in it."""

from __future__ import annotations

from benchmarks.measures import Metrics
from benchmarks.scenarios.base import Job, Scenario
from benchmarks.scenarios.prepared import MESSAGES


def _run(job: Job) -> Metrics:
    store = job.open_agent()
    store.complete_index()
    store.close()
    text = sum(
        len(message.content.encode())
        for session in job.stored_sessions()
        for message in session.messages
    )
    size = job.store.stat().st_size
    return {"file_mb": size / 1e6, "text_mb": text / 1e6, "to_text": size / text}


FOOTPRINT = Scenario(
    name="footprint",
    title="file size",
    opponents=("ours", "hermes-0.13", "hermes-0.19"),
    prepared=MESSAGES,
    changes_store=False,
    run=_run,
)
