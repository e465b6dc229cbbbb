"""What a message costs before a model is asked: finding its session, and a turn of its lane.

The same calls on the same store with few lanes, many, and very many of them: what does not grow is
the same. Lanes are chosen all over the store.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measures import Metrics, percentile
from benchmarks.scenarios.base import Job, Scenario, StoredRowsDiffer
from benchmarks.sizes import Size

STAGES = ("few", "many", "most")
_FILLED_AT_ONCE = 1_000


class _House:
    """A gateway's use of the store, as far as it is measured. Imported where it is installed."""

    def __init__(self, job: Job) -> None:
        from hermes_sessions.config.gateway_config import GatewayConfig
        from hermes_sessions.lifecycle.gateway_process import GatewayProcess
        from hermes_sessions.lifecycle.mailboxes import Mailboxes
        from hermes_sessions.lifecycle.session_store import SessionStore
        from hermes_sessions.storage.repositories.leases import Leases

        self.store: Any = job.open()
        config = GatewayConfig(write_sessions_json=False)
        self.sessions = SessionStore(job.scratch, config, db=self.store.session_db)
        self.engine = self.sessions.engine
        self.mail = Mailboxes(self.engine)
        self.leases = Leases(self.engine.store)
        self.process = GatewayProcess(self.engine)
        self.process.start()

    @staticmethod
    def source(number: int) -> Any:
        from hermes_sessions import Platform, SessionSource

        return SessionSource(Platform.TELEGRAM, str(number), user_id=str(number))

    def fill(self, start: int, end: int) -> None:
        """Make lanes with their sessions, many in one transaction."""
        for first in range(start, end, _FILLED_AT_ONCE):
            last = min(first + _FILLED_AT_ONCE, end)
            self.engine.store.provider.write(
                lambda tx, first=first, last=last: self._fill(tx, range(first, last))
            )

    def _fill(self, tx: Any, numbers: range) -> None:
        from hermes_sessions.lifecycle.lane_updates import TransitionCause, begin_session

        engine = self.engine
        for number in numbers:
            now, source = engine.store.clock(), self.source(number)
            key = engine.key_of(source)
            lane = engine.lanes.ensure(tx, engine.namespace, key, now=now, origin=source)
            cause = TransitionCause("create", "new")
            begin_session(tx, engine, lane, cause, now, leaves=None, notice="new", source=source)

    def place(self, number: int) -> None:
        """Find the session that a message belongs to."""
        self.sessions.get_or_create_session(self.source(number))

    def round_trip(self, number: int) -> None:
        """Receive a message, and begin and end the turn that answers it."""
        source = self.source(number)
        key = self.engine.key_of(source)
        self.mail.receive(key, sender=source.user_id, text="Hello", origin=source)
        entry = self.sessions.get_or_create_session(source)
        lease = self.leases.take(entry.session_id, self.process.holder(), 60)
        waiting = self.lane_id(number)
        taken = self.mail.take(waiting, lease)
        if taken is None or not self.mail.finish(taken.turn, "completed").is_accepted:
            raise StoredRowsDiffer(f"the message to lane {number} was not answered")
        self.leases.release(lease)

    def lane_id(self, number: int) -> int:
        """Return the row id of a lane, which a caller that wakes its worker knows."""
        with self.engine.store.provider.read() as tx:
            key = self.engine.key_of(self.source(number))
            lane = self.engine.lanes.find(tx, self.engine.namespace, key)
        if lane is None:
            raise StoredRowsDiffer(f"lane {number} is gone")
        return lane.id

    def close(self) -> None:
        """End the process and close the store."""
        self.process.end()
        self.sessions.close()
        self.store.close()


def _timed(work: Callable[[int], None], numbers: list[int]) -> float:
    """Return the median of the calls, in milliseconds."""
    seconds = []
    for number in numbers:
        start = time.perf_counter()
        work(number)
        seconds.append(time.perf_counter() - start)
    return percentile(seconds, 0.5) * 1000


def _run(job: Job) -> Metrics:
    house = _House(job)
    chance = random.Random(17)
    metrics: Metrics = {}
    filled = 0
    for stage in STAGES:
        count = job.count(f"lanes_{stage}")
        house.fill(filled, count)
        filled = count
        numbers = [chance.randrange(count) for _ in range(job.count("calls"))]
        metrics[f"place_{stage}_p50_ms"] = _timed(house.place, numbers)
        metrics[f"round_trip_{stage}_p50_ms"] = _timed(house.round_trip, numbers)
    left = house.mail.waiting_lanes()
    if left:
        raise StoredRowsDiffer(f"{len(left)} lanes have something left to do")
    house.close()
    return metrics


def _parameters(size: Size, _opponent: object) -> dict[str, float]:
    lanes = zip(STAGES, size.lanes, strict=True)
    return {"calls": size.lane_calls, **{f"lanes_{stage}": count for stage, count in lanes}}


LANES = Scenario(
    name="lanes",
    title="find a message's session, and run a turn, among 100,000 lanes",
    opponents=("ours",),
    parameters=_parameters,
    run=_run,
)
LANES_POSTGRESQL = Scenario(
    name="lanes-postgresql",
    title="the same, PostgreSQL",
    opponents=("ours-postgresql",),
    parameters=_parameters,
    run=_run,
)
