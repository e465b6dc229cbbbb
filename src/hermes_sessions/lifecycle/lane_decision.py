"""The decision what to do with a lane, as one pure function.

The live path, the expiry watcher and recovery call it inside the transaction that applies it. They
store its inputs, so that every change can be explained afterwards.
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

#: Continue; continue after an interruption; end the session and begin another; begin the first
#: one.
Action = Literal["keep", "resume", "reset", "create"]

#: Interruptions after which an agent continues without a new message.
AUTO_RESUME_REASONS: Final = frozenset(
    {"restart_timeout", "shutdown_timeout", "restart_interrupted"}
)


class Decision(NamedTuple):
    """What to do with a lane, why, and the facts behind it."""

    action: Action
    #: ``create``: ``new`` or ``session_missing``. ``reset``: ``suspended``, ``idle``, ``daily`` or
    #: ``force_new``. ``resume``: why the lane was interrupted. ``keep``: ``busy`` when only that
    #: prevented expiry, otherwise None.
    reason: str | None
    #: JSON-serialisable; times are seconds since the epoch. See `facts_of`.
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
    """Return what to do with *lane*, or with a key that has no lane.

    In this order: a suspended lane is reset; one whose session is missing gets a new one; one
    marked within the last *freshness* seconds is resumed (zero or less: regardless of age); an
    expired one is reset, unless it is *busy* with a turn or a background process. Any other lane
    is kept. *force_new* is a requested reset and comes first.
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
    """Return the facts that a decision about *lane* depends on.

    ========================================= ====================================================
    ``now``, ``busy``, ``freshness``          as given
    ``session_id``, ``updated_at``            of the lane; likewise
    ``status``, ``status_reason``, ``status_at``
    ``mark_is_fresh``                         whether it was recently marked for resuming
    ``policy``                                its fields
    ``expired``                               ``idle``, ``daily`` or None, by the policy
    ``expires_at``                            when it expires or expired; None for never
    ``boundary``                              the latest daily boundary, if the policy has one
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
    """Tell whether an agent continues in this lane after a restart without a new message.

    True if a gateway's end interrupted it recently enough and the reply address is known.
    """
    return (
        lane.status == "resume_pending"
        and lane.status_reason in AUTO_RESUME_REASONS
        and lane.origin is not None
        and _is_fresh(lane, now, freshness)
    )
