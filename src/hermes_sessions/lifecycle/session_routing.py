"""Routes an incoming message to its session: load, decide, apply, in one transaction."""

from __future__ import annotations

from typing import Any, NamedTuple

from hermes_sessions.lifecycle.lane_decision import Decision, decide
from hermes_sessions.lifecycle.lane_dependencies import LaneDependencies
from hermes_sessions.lifecycle.lane_updates import (
    LaneWithSession,
    TransitionCause,
    begin_session,
    follow,
    record,
    switch_session,
)
from hermes_sessions.model.lane import Lane, LaneKey, NoticeKind
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories import lane_sessions, topics
from hermes_sessions.storage.repositories.lane_sessions import LaneSession
from hermes_sessions.storage.repositories.lanes import NO_SESSION

_ACTOR = "message"


class _IncomingMessage(NamedTuple):
    """What is known before the lane is read."""

    source: SessionSource
    key: LaneKey
    now: float
    force_new: bool
    #: Whether background processes of the lane are running; None if not checked yet.
    has_processes: bool | None = None


def route_to_session(
    deps: LaneDependencies, source: SessionSource, *, force_new: bool
) -> LaneWithSession:
    """Return the lane of *source*, with the session that a message from there belongs to now.

    One transaction; a second one only if the lane would expire and its background processes must
    be checked first.
    """
    incoming = _IncomingMessage(source, deps.key_of(source), deps.store.clock(), force_new)
    deps.owner_of(incoming.key, source)
    placed = _try_route(deps, incoming)
    if placed is None:
        asked = incoming._replace(has_processes=deps.has_processes(incoming.key.render()))
        placed = _try_route(deps, asked)
    if placed is None:
        raise AssertionError("a decision was not made although everything was known")
    return placed


def _try_route(deps: LaneDependencies, incoming: _IncomingMessage) -> LaneWithSession | None:
    return deps.store.provider.write(lambda tx: _route(tx, deps, incoming), isolated=False)


def _route(
    tx: WriteTransaction, deps: LaneDependencies, incoming: _IncomingMessage
) -> LaneWithSession | None:
    lane = deps.lanes.ensure(
        tx, deps.namespace, incoming.key, now=incoming.now, origin=incoming.source
    )
    if lane.session_id == NO_SESSION:
        bound = None if incoming.force_new else _bound(tx, deps, incoming)
        if bound is not None:
            cause = TransitionCause("switch", "topic", _ACTOR)
            return switch_session(tx, deps, lane, bound, cause, incoming.now, leaves=None)
        decision = _decided(deps, None, incoming, busy=False)
        return _begin(tx, deps, lane, None, incoming, decision, "new")
    found = lane_sessions.find(tx, lane.session_id)
    current = found if found is not None and found.is_there else None
    followed: dict[str, Any] = {}
    as_it_was = lane
    if current is not None:
        lane, current, followed = follow(tx, lane, current)
    decision = _decided(deps, lane, incoming, busy=False, exists=current is not None)
    if current is not None and decision.reason in {"idle", "daily"}:
        is_running = lane_sessions.is_running(tx, current.chain_id, incoming.now)
        if not is_running and incoming.has_processes is None and deps.active_processes:
            return None
        if is_running or incoming.has_processes:
            decision = _decided(deps, lane, incoming, busy=True)
    # The decision is final from here on.
    if followed:
        cause = TransitionCause("follow", "compaction", _ACTOR)
        record(tx, deps, as_it_was, cause, incoming.now, to_session_id=lane.session_id)
    if decision.action == "create":
        # A session in the trash keeps its end; a deleted one has none.
        return _begin(tx, deps, lane, found, incoming, decision, "lost")
    if decision.action == "reset":
        kind: NoticeKind = "fresh_reset" if incoming.force_new else "auto_reset"
        return _begin(tx, deps, lane, current, incoming, decision, kind)
    return _keep(tx, deps, lane, current, incoming, decision, followed)


def _bound(
    tx: WriteTransaction, deps: LaneDependencies, incoming: _IncomingMessage
) -> LaneSession | None:
    """Return the open session that the topic of a private Telegram chat is bound to.

    Only if it belongs to the user and no lane uses it: both come from an import.
    """
    source = incoming.source
    is_private = source.platform is Platform.TELEGRAM and source.chat_type == "dm"
    if not is_private or not source.thread_id or not source.user_id:
        return None
    session_id = topics.bound_session(tx, source.chat_id, source.thread_id, source.user_id)
    found = None if session_id is None else lane_sessions.find(tx, session_id)
    if found is None or not found.is_there:
        return None
    session = lane_sessions.tip_of(tx, found)
    is_theirs = session.user_id in (None, deps.owner_of(incoming.key, source))
    is_free = tx.one("SELECT 1 FROM lanes WHERE session_id = ?", (session.id,)) is None
    is_open = session.is_there and session.ended_at is None
    return session if is_theirs and is_free and is_open else None


def _decided(
    deps: LaneDependencies,
    lane: Lane | None,
    incoming: _IncomingMessage,
    *,
    busy: bool,
    exists: bool = True,
) -> Decision:
    return decide(
        lane,
        deps.policy_for(incoming.key),
        incoming.now,
        busy=busy,
        freshness=deps.config.auto_continue_freshness,
        force_new=incoming.force_new,
        session_exists=exists,
    )


def _begin(
    tx: WriteTransaction,
    deps: LaneDependencies,
    lane: Lane,
    leaves: LaneSession | None,
    incoming: _IncomingMessage,
    decision: Decision,
    notice: NoticeKind,
) -> LaneWithSession:
    return begin_session(
        tx,
        deps,
        lane,
        TransitionCause(decision.action, decision.reason, _ACTOR, decision.facts),
        incoming.now,
        leaves=leaves,
        notice=notice,
        source=incoming.source,
    )


def _keep(
    tx: WriteTransaction,
    deps: LaneDependencies,
    lane: Lane,
    current: LaneSession | None,
    incoming: _IncomingMessage,
    decision: Decision,
    followed: dict[str, Any],
) -> LaneWithSession:
    changes = {**followed, "updated_at": incoming.now}
    cause = TransitionCause(decision.action, decision.reason, _ACTOR, decision.facts)
    if decision.facts["expired"] is not None:
        # Recorded because the policy alone would have reset it.
        record(tx, deps, lane, cause, incoming.now)
    if lane.status == "resume_pending" and decision.action == "keep":
        # The mark is too old to count; otherwise it stays until a turn succeeds.
        record(tx, deps, lane, cause._replace(action="unmark", reason="stale"), incoming.now)
        changes |= {"status": "active", "status_reason": None, "status_at": None}
    if lane.finalized_at is not None:
        changes |= {"finalized_at": None, "finalize_attempts": 0, "finalize_error": None}
    if current is not None and (current.ended_at or lane.finalized_at) is not None:
        # Also if another lane keeps it open, because that lane may leave it concurrently.
        lane_sessions.reopen(tx, current.id)
        current = current._replace(ended_at=None)
    return LaneWithSession(deps.lanes.change(tx, lane, **changes), current)
