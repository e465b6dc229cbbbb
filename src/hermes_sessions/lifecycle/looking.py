"""Lanes, looked at: nothing here changes one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hermes_sessions.lifecycle.lane_engine import Engine
from hermes_sessions.lifecycle.lane_updates import follow
from hermes_sessions.lifecycle.session_entry import SessionEntry, entry_of
from hermes_sessions.model.key import LaneKey
from hermes_sessions.model.lane import Lane
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.repositories import lane_sessions
from hermes_sessions.storage.repositories.lane_sessions import PointedSession
from hermes_sessions.storage.repositories.lanes import NO_SESSION

#: Lanes read at a time.
_PAGE: Final = 200


class Looks:
    """Verbs of `SessionStore` that read."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, key: LaneKey) -> SessionEntry | None:
        """See `SessionStore.peek`."""
        with self._engine.store.provider.read() as tx:
            return _entry(tx, self._engine.lanes.find(tx, self._engine.namespace, key))

    def by_session(self, session_id: str) -> SessionEntry | None:
        """See `SessionStore.lookup_by_session_id`."""
        engine = self._engine
        if not session_id:
            return None
        with engine.store.provider.read() as tx:
            lane = engine.lanes.by_session(tx, engine.namespace, session_id)
            if lane is None:
                # After compaction, a lane goes on to the continuation with its next message.
                others = [
                    engine.lanes.by_session(tx, engine.namespace, other)
                    for other in lane_sessions.in_thread(tx, session_id)
                ]
                found = (one for one in others if one is not None)
                lane = max(found, key=lambda one: one.updated_at, default=None)
            return _entry(tx, lane)

    def entries(self, active_minutes: float | None) -> Iterator[SessionEntry]:
        """Yield what `SessionStore.list_sessions` returns, of one consistent state."""
        engine = self._engine
        since = None if active_minutes is None else engine.store.clock() - active_minutes * 60
        last: Lane | None = None
        with engine.store.provider.read() as tx:
            while True:
                lanes = engine.lanes.page(
                    tx, engine.namespace, limit=_PAGE, before=last, since=since
                )
                if not lanes:
                    return
                last = lanes[-1]
                sessions = lane_sessions.find_many(tx, {lane.session_id for lane in lanes})
                for lane in lanes:
                    yield _shown(tx, lane, sessions.get(lane.session_id))

    def has_any_sessions(self, besides: str | None) -> bool:
        """See `SessionStore.has_any_sessions`."""
        with self._engine.store.provider.read() as tx:
            row = tx.one("SELECT 1 FROM sessions WHERE id <> ? LIMIT 1", (besides or NO_SESSION,))
        return row is not None


def _entry(tx: ReadTransaction, lane: Lane | None) -> SessionEntry | None:
    if lane is None or lane.session_id == NO_SESSION:
        return None
    return _shown(tx, lane, lane_sessions.find(tx, lane.session_id))


def _shown(tx: ReadTransaction, lane: Lane, session: PointedSession | None) -> SessionEntry:
    """Return a lane as the next message would find it after compaction: where its session goes on.
    Until then, the lane itself is in the one before.
    """
    if session is not None and session.is_there:
        lane, session, _ = follow(tx, lane, session)
    return entry_of(lane, session)
