"""What a scenario is, the job a worker gets, and the steps that several scenarios share.

A scenario's module is imported by the harness, which reads what it needs, and by the worker in
the opponent's environment, which runs it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import corpus
from benchmarks.corpus import CorpusSession, CorpusSpec
from benchmarks.measures import Metrics
from benchmarks.opponents import AgentStore, Opponent, Store
from benchmarks.sizes import Size

Parameters = dict[str, float]


class StoredRowsDiffer(RuntimeError):
    """What was acknowledged and what is stored differ: the run is worthless."""


@dataclass(frozen=True, kw_only=True)
class PreparedStore:
    """A filled store, built once for each opponent and copied for each run that changes it."""

    name: str
    corpus: Callable[[Size], CorpusSpec]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of one scenario for one opponent; the store's file is the run's own."""

    opponent: Opponent
    store: Path
    #: The messages to append, when the scenario has a corpus.
    corpus: Path | None
    #: What the prepared store was filled with, when the scenario starts from one.
    prepared_corpus: Path | None
    #: An empty directory for the run.
    scratch: Path
    parameters: Parameters

    def count(self, name: str) -> int:
        """A parameter that is a number of things."""
        return int(self.parameters[name])

    @property
    def seconds(self) -> float:
        """After how long a reference opponent may stop; never, for our own store."""
        return self.parameters.get("seconds", math.inf)

    def open(self) -> Store:
        """The run's store, with the verbs that every opponent has."""
        return self.opponent.open(self.store)

    def open_agent(self) -> AgentStore:
        """The run's store, with the verbs of a full session store."""
        if self.opponent.open_agent is None:
            raise LookupError(f"{self.opponent.name} has no listing, resuming or pruning")
        return self.opponent.open_agent(self.store)

    def sessions_to_append(self) -> list[CorpusSession]:
        """The scenario's own corpus, read before the clock starts."""
        if self.corpus is None:
            raise LookupError("this scenario has no corpus of its own")
        return list(corpus.read(self.corpus))

    def stored_sessions(self) -> Iterable[CorpusSession]:
        """What the prepared store was filled with, lazily."""
        if self.prepared_corpus is None:
            raise LookupError("this scenario does not start from a prepared store")
        return corpus.read(self.prepared_corpus)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One thing that is measured, and who takes part."""

    name: str
    title: str
    opponents: tuple[str, ...]
    run: Callable[[Job], Metrics]
    corpus: Callable[[Size], CorpusSpec] | None = None
    prepared: PreparedStore | None = None
    #: False for scenarios that only read: they use the prepared file itself.
    changes_store: bool = True
    parameters: Callable[[Size, Opponent], Parameters] = lambda _size, _opponent: {}
    is_part_of: Callable[[Size], bool] = lambda _size: True


def reference_seconds(size: Size, opponent: Opponent) -> Parameters:
    """The time limit of scenarios that are slow for others."""
    return {"seconds": size.reference_seconds} if opponent.is_reference else {}


def append_timed(
    store: Store, sessions: Iterable[CorpusSession], *, seconds: float = math.inf
) -> tuple[list[float], list[CorpusSession]]:
    """Append message by message, session after session.

    Returns the seconds each append took and what was acknowledged. Creating sessions is not
    counted. Stops between two messages once ``seconds`` have passed.
    """
    clock = time.perf_counter
    latencies: list[float] = []
    acknowledged: list[CorpusSession] = []
    deadline = clock() + seconds
    for session in sessions:
        store.create_session(session)
        count = 0
        for message in session.messages:
            start = clock()
            store.append(session.id, message)
            end = clock()
            latencies.append(end - start)
            count += 1
            if end > deadline:
                break
        acknowledged.append(_shortened(session, count))
        if clock() > deadline:
            break
    return latencies, acknowledged


def _shortened(session: CorpusSession, count: int) -> CorpusSession:
    if count == len(session.messages):
        return session
    return CorpusSession(**{**vars(session), "messages": session.messages[:count]})


def check_stored(job: Job, acknowledged: list[CorpusSession], *, already_there: int = 0) -> None:
    """Reopen the store and compare it with what was acknowledged: the number of messages, and
    the contents of the first and the last session. Raises :class:`StoredRowsDiffer`.
    """
    store = job.open()
    try:
        expected = already_there + sum(len(session.messages) for session in acknowledged)
        stored = store.count_messages()
        if stored != expected:
            raise StoredRowsDiffer(f"{expected} messages acknowledged, {stored} stored")
        for session in (acknowledged[0], acknowledged[-1]):
            contents = [message.content for message in session.messages]
            if store.contents(session.id) != contents:
                raise StoredRowsDiffer(f"session {session.id} reads back differently")
    finally:
        store.close()
