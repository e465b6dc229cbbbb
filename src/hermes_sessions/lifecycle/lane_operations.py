"""Operations on a lane by its key: reset, switch, suspend, mark, clear, record use.

An unknown key is a no-op. Every operation is one transaction that locks the lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from hermes_sessions.errors import InvalidInput, NotFound
from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
from hermes_sessions.lifecycle.lane_updates import (
    LANE_PRUNED,
    LaneWithSession,
    TransitionCause,
    begin_session,
    follow,
    set_status,
    switch_session,
)
from hermes_sessions.lifecycle.session_entry import SessionEntry, entry_of
from hermes_sessions.model.lane import (
    WITH_ALIASES,
    Lane,
    LaneKey,
    LaneNotice,
    digests_of,
    parse_key,
)
from hermes_sessions.model.scope import Scope
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction, placeholders
from hermes_sessions.storage.repositories import lane_sessions
from hermes_sessions.storage.repositories.handoffs import Handoffs
from hermes_sessions.storage.repositories.lane_sessions import LaneSession
from hermes_sessions.storage.repositories.lanes import NO_SESSION

# Reading lanes

#: Lanes read at a time.
_PAGE: Final = 200


class LaneReader:
    """The reading methods of `SessionStore`."""

    def __init__(self, deps: LaneDependencies) -> None:
        self._deps = deps

    def find(self, key: LaneKey) -> SessionEntry | None:
        """See `SessionStore.peek`."""
        with self._deps.store.provider.read() as tx:
            return _entry(tx, self._deps.lanes.find(tx, self._deps.namespace, key))

    def by_session(self, session_id: str) -> SessionEntry | None:
        """See `SessionStore.lookup_by_session_id`."""
        deps = self._deps
        if not session_id:
            return None
        with deps.store.provider.read() as tx:
            lane = deps.lanes.by_session(tx, deps.namespace, session_id)
            if lane is None:
                # After compaction, a lane moves to the continuation with its next message.
                others = [
                    deps.lanes.by_session(tx, deps.namespace, other)
                    for other in lane_sessions.in_thread(tx, session_id)
                ]
                found = (one for one in others if one is not None)
                lane = max(found, key=lambda one: one.updated_at, default=None)
            return _entry(tx, lane)

    def entries(self, active_minutes: float | None) -> Iterator[SessionEntry]:
        """Yield the entries of `SessionStore.list_sessions` from one consistent snapshot."""
        deps = self._deps
        since = None if active_minutes is None else deps.store.clock() - active_minutes * 60
        last: Lane | None = None
        with deps.store.provider.read() as tx:
            while True:
                lanes = deps.lanes.page(tx, deps.namespace, limit=_PAGE, before=last, since=since)
                if not lanes:
                    return
                last = lanes[-1]
                sessions = lane_sessions.find_many(tx, {lane.session_id for lane in lanes})
                for lane in lanes:
                    yield _shown(tx, lane, sessions.get(lane.session_id))

    def has_any_sessions(self, besides: str | None) -> bool:
        """See `SessionStore.has_any_sessions`."""
        with self._deps.store.provider.read() as tx:
            row = tx.one("SELECT 1 FROM sessions WHERE id <> ? LIMIT 1", (besides or NO_SESSION,))
        return row is not None


def _entry(tx: ReadTransaction, lane: Lane | None) -> SessionEntry | None:
    if lane is None or lane.session_id == NO_SESSION:
        return None
    return _shown(tx, lane, lane_sessions.find(tx, lane.session_id))


def _shown(tx: ReadTransaction, lane: Lane, session: LaneSession | None) -> SessionEntry:
    """Return a lane as the next message would find it: in the continuation after compaction.

    Until then, the stored lane points at the previous session.
    """
    if session is not None and session.is_there:
        lane, session, _ = follow(tx, lane, session)
    return entry_of(lane, session)


T = TypeVar("T")

#: Runs first in the transaction of a change, with the lane locked; False cancels the change.
Precondition = Callable[[WriteTransaction, Lane], bool]


class LaneChanges:
    """The methods of `SessionStore` that change one lane."""

    def __init__(self, deps: LaneDependencies) -> None:
        self._deps = deps

    def _on_lane(
        self, session_key: str, otherwise: T, work: Callable[[WriteTransaction, Lane, float], T]
    ) -> T:
        """Run *work* on the locked lane, or return *otherwise* for an unknown key."""
        deps, now = self._deps, self._deps.store.clock()

        def unit(tx: WriteTransaction) -> T:
            lane = deps.lanes.lock(tx, deps.namespace, session_key)
            return otherwise if lane is None else work(tx, lane, now)

        return deps.store.provider.write(unit, isolated=False)

    def reset(
        self, session_key: str, display_name: str | None, first: Precondition | None = None
    ) -> LaneWithSession | None:
        """See `SessionStore.reset_session`."""

        def work(tx: WriteTransaction, lane: Lane, now: float) -> LaneWithSession | None:
            if first is not None and not first(tx, lane):
                return None
            changes: dict[str, Any] = {}
            if display_name is not None:
                changes["display_name"] = display_name
            return begin_session(
                tx,
                self._deps,
                lane,
                TransitionCause("reset", "requested", "user"),
                now,
                leaves=_current(tx, lane),
                notice="fresh_reset",
                **changes,
            )

        self._settle_owner(session_key)
        return self._on_lane(session_key, None, work)

    def _settle_owner(self, session_key: str) -> None:
        """Store who owns a lane, before the transaction that needs it."""
        deps = self._deps
        try:
            if parse_key(session_key).platform not in WITH_ALIASES:
                return
        except InvalidInput:
            return
        with deps.store.provider.read() as tx:
            lane = deps.lanes.find(tx, deps.namespace, session_key)
        if lane is not None:
            deps.owner_of(lane.key, lane.origin)

    def switch(self, session_key: str, target_id: str, scope: Scope) -> LaneWithSession | None:
        """See `SessionStore.switch_session`."""

        def work(tx: WriteTransaction, lane: Lane, now: float) -> LaneWithSession:
            found = lane_sessions.find_in_scope(tx, target_id, scope)
            if found is None:
                raise NotFound(
                    f"There is no session {target_id!r} to switch to. It may be in the trash, or "
                    f"belong to another user; see: hermes sessions list"
                )
            target = lane_sessions.tip_of(tx, found)
            if not target.is_there:
                target = found
            cause = TransitionCause("switch", "requested", "user")
            if target.id != lane.session_id:
                return switch_session(
                    tx, self._deps, lane, target, cause, now, leaves=_current(tx, lane)
                )
            if lane.status != "active":
                # Switching to the current session means continuing it.
                lane = set_status(tx, self._deps, lane, "active", cause, now)
            return LaneWithSession(lane, target)

        return self._on_lane(session_key, None, work)

    def accept_handoff(self, session_id: str, source: SessionSource) -> LaneWithSession | None:
        """See `SessionStore.accept_handoff`."""
        deps, now = self._deps, self._deps.store.clock()
        key = deps.key_of(source)

        def work(tx: WriteTransaction) -> LaneWithSession | None:
            if not Handoffs.is_pending(tx, session_id, key.platform):
                return None
            # All code locks lanes before sessions, to avoid deadlocks.
            lane = deps.lanes.ensure(tx, deps.namespace, key, now=now, origin=source)
            found = lane_sessions.find(tx, session_id)
            if found is None or not Handoffs.accept(tx, session_id, key.platform):
                return None
            target = lane_sessions.tip_of(tx, found)
            target = target if target.is_there else found
            cause = TransitionCause("switch", "handoff", "gateway")
            leaves = _current(tx, lane)
            return switch_session(tx, deps, lane, target, cause, now, leaves=leaves)

        return deps.store.provider.write(work, isolated=False)

    def suspend(self, session_key: str, reason: str, first: Precondition | None = None) -> bool:
        """See `SessionStore.suspend_session`."""

        def work(tx: WriteTransaction, lane: Lane, now: float) -> bool:
            if first is not None and not first(tx, lane):
                return False
            if lane.session_id == NO_SESSION:
                return False
            if lane.status != "suspended":
                cause = TransitionCause("suspend", reason, "user")
                set_status(tx, self._deps, lane, "suspended", cause, now)
            return True

        return self._on_lane(session_key, False, work)

    def mark_resume(self, session_key: str, reason: str) -> bool:
        """See `SessionStore.mark_resume_pending`."""

        def work(tx: WriteTransaction, lane: Lane, now: float) -> bool:
            if lane.session_id == NO_SESSION or lane.status == "suspended":
                return False
            cause = TransitionCause("mark", reason, "gateway")
            set_status(tx, self._deps, lane, "resume_pending", cause, now)
            return True

        return self._on_lane(session_key, False, work)

    def clear_resume(self, session_key: str, session_id: str | None) -> bool:
        """See `SessionStore.clear_resume_pending`."""

        def work(tx: WriteTransaction, lane: Lane, now: float) -> bool:
            if lane.status != "resume_pending":
                return False
            if session_id is not None and lane.session_id not in {
                session_id,
                *lane_sessions.in_thread(tx, session_id),
            }:
                return False
            cause = TransitionCause("unmark", "completed", "gateway")
            cleared = set_status(tx, self._deps, lane, "active", cause, now)
            if cleared.unfinished_starts:
                self._deps.lanes.change(tx, cleared, unfinished_starts=0)
            return True

        return self._on_lane(session_key, False, work)

    def take_notice(self, session_key: str) -> LaneNotice | None:
        """See `SessionStore.take_notice`."""

        def work(tx: WriteTransaction, lane: Lane, _now: float) -> LaneNotice | None:
            if lane.notice is not None:
                self._deps.lanes.change(tx, lane, notice=None)
            return lane.notice

        return self._on_lane(session_key, None, work)

    def used(
        self, session_key: str, last_prompt_tokens: int | None, session_id: str | None
    ) -> bool:
        """See `SessionStore.update_session`."""
        deps = self._deps
        changes, params = ["updated_at = ?"], list[object]([deps.store.clock()])
        if last_prompt_tokens is not None:
            changes.append("last_prompt_tokens = ?")
            params.append(_require_count(last_prompt_tokens))
        if not (digests := digests_of(session_key)):
            return False
        conditions = [
            "namespace = ?",
            f"key_hash IN ({placeholders(len(digests))})",
            "session_id <> ?",
        ]
        params += [deps.namespace, *digests, NO_SESSION]
        if session_id is not None:
            conditions.append(lane_sessions.IS_IN_THREAD)
            params += [session_id, session_id]
        statement = f"UPDATE lanes SET {', '.join(changes)} WHERE {' AND '.join(conditions)}"
        return bool(deps.store.provider.write(lambda tx: tx.run(statement, params), isolated=False))


def _current(tx: WriteTransaction, lane: Lane) -> LaneSession | None:
    """Return the session of a lane; after compaction, its latest continuation."""
    found = None if lane.session_id == NO_SESSION else lane_sessions.find(tx, lane.session_id)
    return lane_sessions.tip_of(tx, found) if found is not None and found.is_there else found


def _require_count(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"last_prompt_tokens must be a non-negative integer, not {value!r}.")
    return value


# Operations on many lanes: marking after a crash, removing old ones

#: Lanes per transaction.
_SWEEP_PAGE: Final = 100


_DAY: Final = 86_400.0


class LaneSweeps:
    """The methods of `SessionStore` that go through all lanes of a bot."""

    def __init__(self, deps: LaneDependencies) -> None:
        self._deps = deps

    def mark_recent(self, max_age_seconds: float, reason: str) -> int:
        """See `SessionStore.suspend_recently_active`."""
        deps, now = self._deps, self._deps.store.clock()
        marked, last = 0, None
        while True:
            with deps.store.provider.read() as tx:
                lanes = deps.lanes.page(
                    tx,
                    deps.namespace,
                    limit=_SWEEP_PAGE,
                    before=last,
                    since=now - max_age_seconds,
                )
            if not lanes:
                return marked
            last = lanes[-1]

            def work(tx: WriteTransaction, lanes: list[Lane] = lanes) -> int:
                return sum(self._mark(tx, lane, reason, now) for lane in lanes)

            marked += deps.store.provider.write(work, isolated=False)

    def _mark(self, tx: WriteTransaction, seen: Lane, reason: str, now: float) -> bool:
        if seen.status != "active":
            return False
        lane = self._deps.lanes.lock_by_id(tx, seen.id)
        if lane is None or lane.status != "active":
            return False
        cause = TransitionCause("mark", reason, "recovery")
        set_status(tx, self._deps, lane, "resume_pending", cause, now)
        return True

    def prune(self, max_age_days: float) -> int:
        """See `SessionStore.prune_old_entries`."""
        deps, now = self._deps, self._deps.store.clock()
        until = now - max_age_days * _DAY
        pruned, last = 0, None
        while True:
            with deps.store.provider.read() as tx:
                lanes = deps.lanes.page_older(
                    tx, deps.namespace, limit=_SWEEP_PAGE, until=until, after=last
                )
            if not lanes:
                return pruned
            last = lanes[-1]
            # Outside the transaction, because the answers come from callbacks.
            idle = [
                lane
                for lane in lanes
                if lane.status != "suspended" and not deps.has_processes(lane)
            ]

            def work(tx: WriteTransaction, idle: list[Lane] = idle) -> int:
                return sum(self._forget(tx, lane, until, now) for lane in idle)

            pruned += deps.store.provider.write(work, isolated=False)

    def _forget(self, tx: WriteTransaction, seen: Lane, until: float, now: float) -> bool:
        lane = self._deps.lanes.lock_by_id(tx, seen.id)
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
        self._deps.lanes.remove(tx, lane)
        return True


def _has_mail(tx: ReadTransaction, lane: Lane) -> bool:
    row = tx.one(
        "SELECT 1 FROM mailbox WHERE lane_id = ? AND finished_at IS NULL LIMIT 1", (lane.id,)
    )
    return row is not None
