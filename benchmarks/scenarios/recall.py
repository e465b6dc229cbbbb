"""Ask ordinary questions whose answers are stored, and count the ones that come back empty."""

from __future__ import annotations

from benchmarks import questions
from benchmarks.corpus import CorpusMessage, CorpusSession, CorpusSpec
from benchmarks.measures import Metrics
from benchmarks.scenarios.base import Job, Scenario, append_timed

SURROUNDING_MESSAGES = 300
#: More than there are messages: what is not in the list was not found.
LIMIT = 1000


def _run(job: Job) -> Metrics:
    planted = [_session(place, text) for place, (_, text) in enumerate(questions.ORDINARY)]
    store = job.open_agent()
    append_timed(store, [*job.sessions_to_append(), *planted])
    store.complete_index()
    empty = missed = 0
    for session, (query, _) in zip(planted, questions.ORDINARY, strict=True):
        found = {row["session_id"] for row in store.search(query, LIMIT)}
        empty += not found
        missed += session.id not in found
    store.close()
    return {"queries": float(len(planted)), "empty": float(empty), "missed": float(missed)}


def _session(place: int, text: str) -> CorpusSession:
    return CorpusSession(
        id=f"20260102_000000_planted{place:02d}",
        source="cli",
        model="small-local",
        system_prompt="",
        parent_id=None,
        end_reason=None,
        messages=[CorpusMessage(role="user", content=text, kind="prose")],
    )


RECALL = Scenario(
    name="recall",
    title="ordinary questions",
    opponents=("ours", "hermes-0.13", "hermes-0.19"),
    corpus=lambda _size: CorpusSpec(name="recall", messages=SURROUNDING_MESSAGES),
    run=_run,
)
