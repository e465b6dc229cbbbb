"""Changes of lanes inside a transaction, with all their effects.

When a lane gets another session, the old session is ended, the new one exists, the lane points at
it, and a transition records why: all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
from hermes_sessions.model.lane import Lane, LaneNotice, NoticeKind
from hermes_sessions.model.source import SessionSource
from hermes_sessions.storage.provider import ReadTransaction, WriteTransaction
from hermes_sessions.storage.repositories import lane_sessions
from hermes_sessions.storage.repositories.lane_sessions import LaneSession
from hermes_sessions.storage.repositories.lane_transitions import Transition
from hermes_sessions.storage.repositories.lanes import NO_SESSION

#: End reasons of sessions that a lane left, as documented.
SESSION_RESET: Final = "session_reset"
SESSION_SWITCH: Final = "session_switch"
#: The lane itself was removed.
LANE_PRUNED: Final = "lane_pruned"

#: Initial lane state for a new session.
_NEW_SESSION_STATE: Final[dict[str, Any]] = {
    "status": "active",
    "status_reason": None,
    "status_at": None,
    "last_prompt_tokens": 0,
    "unfinished_starts": 0,
    "finalized_at": None,
    "finalize_attempts": 0,
    "finalize_error": None,
}


class TransitionCause(NamedTuple):
    """Why a lane changes."""

    action: str
    reason: str | None = None
    #: The part of the program that requested it.
    actor: str = "store"
    #: The facts of a decision; its policy is stored separately.
    facts: Mapping[str, Any] | None = None


class LaneWithSession(NamedTuple):
    """A lane and the session it points at now."""

    lane: Lane
    session: LaneSession | None


def record(
    tx: WriteTransaction,
    deps: LaneDependencies,
    lane: Lane,
    cause: TransitionCause,
    now: float,
    *,
    to_session_id: str | None = None,
) -> None:
    """Record why *lane*, given in its previous state, changes; by default it keeps its session."""
    facts = dict(cause.facts or {})
    policy = facts.pop("policy", None)
    from_id = None if lane.session_id == NO_SESSION else lane.session_id
    deps.lanes.record(
        tx,
        Transition(
            lane.id,
            now,
            cause.action,
            cause.reason,
            cause.actor,
            from_id,
            to_session_id or from_id,
            policy,
            facts or None,
        ),
    )


def begin_session(
    tx: WriteTransaction,
    deps: LaneDependencies,
    lane: Lane,
    cause: TransitionCause,
    now: float,
    *,
    leaves: LaneSession | None,
    notice: NoticeKind,
    source: SessionSource | None = None,
    **changes: Any,
) -> LaneWithSession:
    """Give a locked lane a new session and end the one it *leaves*."""
    origin = source or lane.origin
    session = lane_sessions.begin(
        tx,
        _unused_id(tx, deps, now),
        source=lane.key.platform,
        user_id=deps.owner_of(lane.key, origin),
        now=now,
    )
    if source is not None:
        changes = {"origin": source, "display_name": source.chat_name, **changes}
    return _point(tx, deps, lane, session, cause, now, leaves, notice, SESSION_RESET, changes)


def _unused_id(tx: WriteTransaction, deps: LaneDependencies, now: float) -> str:
    """Return an unused id for a new session.

    Among thousands created in one second, two ids may collide. If another process creates the
    same id concurrently, the database refuses it and the transaction is repeated.
    """
    while lane_sessions.exists(tx, session_id := deps.new_session_id(now)):
        pass
    return session_id


def switch_session(
    tx: WriteTransaction,
    deps: LaneDependencies,
    lane: Lane,
    target: LaneSession,
    cause: TransitionCause,
    now: float,
    *,
    leaves: LaneSession | None,
) -> LaneWithSession:
    """Point a locked lane at an existing session, and end the one it *leaves*."""
    # Reopen even an open session: this locks its row. A concurrent lane that leaves the session,
    # and would end it, then sees first that this lane uses it.
    lane_sessions.reopen(tx, target.id)
    return _point(tx, deps, lane, target, cause, now, leaves, "switched", SESSION_SWITCH, {})


def _point(
    tx: WriteTransaction,
    deps: LaneDependencies,
    lane: Lane,
    session: LaneSession,
    cause: TransitionCause,
    now: float,
    leaves: LaneSession | None,
    notice: NoticeKind,
    end_reason: str,
    changes: dict[str, Any],
) -> LaneWithSession:
    if leaves is not None and leaves.id != session.id:
        lane_sessions.end(tx, leaves.id, end_reason, now=now, left_by=lane.id)
    record(tx, deps, lane, cause, now, to_session_id=session.id)
    said = LaneNotice(
        notice,
        cause.reason,
        had_activity=leaves is not None and leaves.message_count > 0,
        previous_session_id=None if lane.session_id == NO_SESSION else lane.session_id,
        at=now,
        suspended_for=lane.status_reason if lane.status == "suspended" else None,
    )
    changed = deps.lanes.change(
        tx,
        lane,
        session_id=session.id,
        created_at=now,
        updated_at=now,
        notice=said,
        **_NEW_SESSION_STATE,
        **changes,
    )
    return LaneWithSession(changed, session)


def follow(
    tx: ReadTransaction, lane: Lane, current: LaneSession
) -> tuple[Lane, LaneSession, dict[str, Any]]:
    """Follow the session to its continuation; also returns the columns to write."""
    tip = lane_sessions.tip_of(tx, current)
    if tip.id == current.id or not tip.is_there:
        return lane, current, {}
    changes: dict[str, Any] = {"session_id": tip.id, "last_prompt_tokens": 0}
    return lane._replace(**changes), tip, changes


def set_status(
    tx: WriteTransaction,
    deps: LaneDependencies,
    lane: Lane,
    status: str,
    cause: TransitionCause,
    now: float,
) -> Lane:
    """Change the status of a locked lane, or the reason of the same status."""
    record(tx, deps, lane, cause, now)
    marked = {"status_reason": cause.reason, "status_at": now}
    if status == "active":
        marked = dict.fromkeys(marked)
    return deps.lanes.change(tx, lane, status=status, **marked)
