"""What becomes of a lane when somebody looks at it: the one decision, without any side effect.

The live path, the expiry watcher and recovery call it inside the transaction that applies it, and
store what it looked at, so that every change can be explained afterwards.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

from hermes_sessions.model.lane import Lane
from hermes_sessions.model.reset_policy import (
    SessionResetPolicy,
    expiry_reason,
    last_boundary,
    next_expiry,
)

#: Go on; go on after an interruption; end the session and begin another; begin one, because there
#: is none.
Action = Literal["keep", "resume", "reset", "create"]

#: Interruptions after which an agent goes on without being asked.
AUTO_RESUME_REASONS: Final = frozenset(
    {"restart_timeout", "shutdown_timeout", "restart_interrupted"}
)


class Decision(NamedTuple):
    """What to do with a lane, why, and what was looked at."""

    action: Action
    #: ``create``: ``new`` or ``session_missing``. ``reset``: ``suspended``, ``idle``, ``daily`` or
    #: ``force_new``. ``resume``: why the lane was interrupted. ``keep``: ``busy`` when that alone
    #: kept it from expiring, otherwise None.
    reason: str | None
    #: JSON can hold it; times are seconds since the epoch. See `facts_of`.
    facts: dict[str, Any]


def decide(
    lane: Lane | None,
    policy: SessionResetPolicy,
    now: float,
    *,
    busy: bool,
    freshness: float,
    force_new: bool = False,
    session_exists: bool = True,
) -> Decision:
    """Return what becomes of *lane*, or of a key that has none.

    In this order: a suspended lane is reset; one whose session is gone gets another; one marked
    within the last *freshness* seconds is resumed (zero or less: however long ago); one that has
    expired is reset, unless it is *busy*: a turn or a process of it runs. Anything else is kept.
    *force_new* is a reset that was asked for, and comes first.
    """
    if lane is None:
        facts = {"now": now, "policy": policy.to_dict(), "busy": busy, "force_new": force_new}
        return Decision("create", "new", facts)
    facts = facts_of(lane, policy, now, busy=busy, freshness=freshness)
    facts |= {"force_new": force_new, "session_exists": session_exists}
    action, reason = _chosen(lane, facts)
    return Decision(action, reason, facts)


def _chosen(lane: Lane, facts: dict[str, Any]) -> tuple[Action, str | None]:
    if facts["force_new"]:
        return "reset", "force_new"
    if lane.status == "suspended":
        return "reset", "suspended"
    if not facts["session_exists"]:
        return "create", "session_missing"
    if lane.status == "resume_pending" and facts["mark_is_fresh"]:
        return "resume", lane.status_reason
    if facts["expired"] is None:
        return "keep", None
    return ("keep", "busy") if facts["busy"] else ("reset", facts["expired"])


def facts_of(
    lane: Lane, policy: SessionResetPolicy, now: float, *, busy: bool, freshness: float
) -> dict[str, Any]:
    """Return what a decision about *lane* looks at.

    ========================================= ====================================================
    ``now``, ``busy``, ``freshness``          as given
    ``session_id``, ``updated_at``            of the lane, as are
    ``status``, ``status_reason``, ``status_at``
    ``mark_is_fresh``                         whether it is marked for resuming, and recently
    ``policy``                                its fields
    ``expired``                               ``idle``, ``daily`` or None: what the policy says
    ``expires_at``                            when it does or did so; None: never
    ``boundary``                              the latest daily boundary, where the policy has one
    ========================================= ====================================================
    """
    has_boundary = policy.mode in {"daily", "both"}
    return {
        "now": now,
        "busy": busy,
        "freshness": freshness,
        "session_id": lane.session_id,
        "updated_at": lane.updated_at,
        "status": lane.status,
        "status_reason": lane.status_reason,
        "status_at": lane.status_at,
        "mark_is_fresh": lane.status == "resume_pending" and _is_fresh(lane, now, freshness),
        "policy": policy.to_dict(),
        "expired": expiry_reason(policy, lane.updated_at, now),
        "expires_at": next_expiry(policy, lane.updated_at),
        "boundary": last_boundary(policy, now) if has_boundary else None,
    }


def _is_fresh(lane: Lane, now: float, freshness: float) -> bool:
    marked_at = lane.updated_at if lane.status_at is None else lane.status_at
    return freshness <= 0 or now - marked_at <= freshness


def resumes_automatically(lane: Lane, now: float, freshness: float) -> bool:
    """Tell whether an agent goes on in this lane after a restart although nobody wrote.

    It was interrupted by the end of a gateway, recently enough, and it is known where answers go.
    """
    return (
        lane.status == "resume_pending"
        and lane.status_reason in AUTO_RESUME_REASONS
        and lane.origin is not None
        and _is_fresh(lane, now, freshness)
    )
