"""What is done to many lanes at once: marking after a crash, forgetting what is old."""

from __future__ import annotations

from typing import Final

from hermes_sessions.lifecycle.lane_engine import Engine
from hermes_sessions.lifecycle.lane_updates import LANE_PRUNED, Cause, set_status
from hermes_sessions.model.lane import Lane
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories import lane_sessions

#: Lanes looked at in one transaction.
_PAGE: Final = 100
_DAY: Final = 86_400.0


class Sweeps:
    """Verbs of `SessionStore` that go through the lanes of a bot."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def mark_recent(self, max_age_seconds: float, reason: str) -> int:
        """See `SessionStore.suspend_recently_active`."""
        engine, now = self._engine, self._engine.store.clock()
        marked, last = 0, None
        while True:
            with engine.store.provider.read() as tx:
                lanes = engine.lanes.page(
                    tx, engine.namespace, limit=_PAGE, before=last, since=now - max_age_seconds
                )
            if not lanes:
                return marked
            last = lanes[-1]

            def work(tx: WriteTransaction, lanes: list[Lane] = lanes) -> int:
                return sum(self._mark(tx, lane, reason, now) for lane in lanes)

            marked += engine.store.provider.write(work, isolated=False)

    def _mark(self, tx: WriteTransaction, seen: Lane, reason: str, now: float) -> bool:
        if seen.status != "active":
            return False
        lane = self._engine.lanes.lock_by_id(tx, seen.id)
        if lane is None or lane.status != "active":
            return False
        cause = Cause("mark", reason, "recovery")
        set_status(tx, self._engine, lane, "resume_pending", cause, now)
        return True

    def prune(self, max_age_days: float) -> int:
        """See `SessionStore.prune_old_entries`."""
        engine, now = self._engine, self._engine.store.clock()
        until = now - max_age_days * _DAY
        pruned, last = 0, None
        while True:
            with engine.store.provider.read() as tx:
                lanes = engine.lanes.page_older(
                    tx, engine.namespace, limit=_PAGE, until=until, after=last
                )
            if not lanes:
                return pruned
            last = lanes[-1]
            # Outside of the transaction: the answers come from elsewhere.
            idle = [
                lane
                for lane in lanes
                if lane.status != "suspended" and not engine.has_processes(lane)
            ]

            def work(tx: WriteTransaction, idle: list[Lane] = idle) -> int:
                return sum(self._forget(tx, lane, until, now) for lane in idle)

            pruned += engine.store.provider.write(work, isolated=False)

    def _forget(self, tx: WriteTransaction, seen: Lane, until: float, now: float) -> bool:
        lane = self._engine.lanes.lock_by_id(tx, seen.id)
        if lane is None or lane.updated_at >= until or lane.status == "suspended":
            return False
        session = lane_sessions.find(tx, lane.session_id)
        if session is not None:
            if lane_sessions.is_running(tx, session.chain_id, now):
                return False
            session = lane_sessions.tip_of(tx, session)
        if _has_mail(tx, lane):
            return False
        if session is not None:
            lane_sessions.end(tx, session.id, LANE_PRUNED, now=now, left_by=lane.id)
        self._engine.lanes.remove(tx, lane)
        return True


def _has_mail(tx: ReadTransaction, lane: Lane) -> bool:
    row = tx.one(
        "SELECT 1 FROM mailbox WHERE lane_id = ? AND finished_at IS NULL LIMIT 1", (lane.id,)
    )
    return row is not None
