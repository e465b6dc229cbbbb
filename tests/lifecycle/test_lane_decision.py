"""The decision about a lane, as a table, and its invariants."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.lifecycle.lane_decision import Decision, decide, resumes_automatically
from hermes_sessions.model.lane import STATUSES, Lane, lane_key
from hermes_sessions.model.reset_policy import SessionResetPolicy, expiry_reason
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions_testing.clock import NOON

SOURCE = SessionSource(Platform.TELEGRAM, "1")
KEY = lane_key(SOURCE)
HOUR = 3600.0
IDLE = SessionResetPolicy("idle", idle_minutes=60)
NEVER = SessionResetPolicy("none")


def lane(used: float = 0, status: str = "active", marked: float | None = None) -> Lane:
    """Return a lane used, and marked, the given seconds before noon."""
    reason = None if status == "active" else f"why {status}"
    at = None if marked is None else NOON - marked
    values: dict[str, Any] = {"status": status, "status_reason": reason, "status_at": at}
    return Lane(1, "", KEY, KEY.render(), "s1", NOON - used, NOON - used, origin=SOURCE, **values)


def at_noon(lane: Lane | None, policy: SessionResetPolicy = IDLE, **given: Any) -> Decision:
    return decide(lane, policy, NOON, **{"busy": False, "freshness": HOUR, **given})


@pytest.mark.parametrize(
    ("found", "given", "action", "reason"),
    [
        (None, {}, "create", "new"),
        (None, {"force_new": True}, "create", "new"),
        (lane(), {}, "keep", None),
        (lane(HOUR), {}, "keep", None),
        (lane(HOUR + 1), {}, "reset", "idle"),
        (lane(HOUR + 1), {"busy": True}, "keep", "busy"),
        (lane(), {"busy": True}, "keep", None),
        (lane(), {"force_new": True, "busy": True}, "reset", "force_new"),
        # Suspended: always.
        (lane(0, "suspended"), {}, "reset", "suspended"),
        (lane(0, "suspended"), {"busy": True}, "reset", "suspended"),
        (lane(2 * HOUR, "suspended"), {}, "reset", "suspended"),
        (lane(0, "suspended"), {"session_exists": False}, "reset", "suspended"),
        # The session is gone, so there is nothing to continue.
        (lane(), {"session_exists": False}, "create", "session_missing"),
        (lane(), {"session_exists": False, "busy": True}, "create", "session_missing"),
        (lane(0, "resume_pending", 0), {"session_exists": False}, "create", "session_missing"),
        # Marked, and used longer ago than the policy allows.
        (lane(2 * HOUR, "resume_pending", 0), {}, "resume", "why resume_pending"),
        (lane(2 * HOUR, "resume_pending", HOUR), {}, "resume", "why resume_pending"),
        (lane(2 * HOUR, "resume_pending", HOUR + 1), {}, "reset", "idle"),
        (lane(2 * HOUR, "resume_pending", HOUR + 1), {"busy": True}, "keep", "busy"),
        (lane(9, "resume_pending", HOUR + 1), {}, "keep", None),
        (lane(2 * HOUR, "resume_pending"), {}, "reset", "idle"),
        (lane(9, "resume_pending"), {}, "resume", "why resume_pending"),
        (lane(-9, "resume_pending", -9), {}, "resume", "why resume_pending"),
        # Without a limit, however long ago.
        (lane(9e6, "resume_pending", 9e6), {"freshness": 0}, "resume", "why resume_pending"),
        (lane(9e6, "resume_pending", 9e6), {"freshness": -1}, "resume", "why resume_pending"),
    ],
)
def test_decisions(found: Lane | None, given: dict[str, Any], action: str, reason: str) -> None:
    decision = at_noon(found, **given)
    assert (decision.action, decision.reason) == (action, reason)


def test_a_year_without_a_policy() -> None:
    assert at_noon(lane(366 * 86_400), NEVER).action == "keep"
    stale = lane(366 * 86_400, "resume_pending", 366 * 86_400)
    assert at_noon(stale, NEVER).action == "keep"


def test_the_facts_explain_a_reset() -> None:
    policy = SessionResetPolicy("both", at_hour=4, idle_minutes=1440, timezone="UTC")
    decision = at_noon(lane(10 * HOUR), policy)
    assert decision.reason == "daily"
    assert decision.facts == {
        "now": NOON,
        "busy": False,
        "freshness": HOUR,
        "session_id": "s1",
        "updated_at": NOON - 10 * HOUR,
        "status": "active",
        "status_reason": None,
        "status_at": None,
        "mark_is_fresh": False,
        "policy": policy.to_dict(),
        "expired": "daily",
        "expires_at": NOON - 8 * HOUR,
        "boundary": NOON - 8 * HOUR,
        "force_new": False,
        "session_exists": True,
    }


@given(
    st.builds(
        lane,
        st.floats(-1e6, 1e6),
        st.sampled_from(STATUSES),
        st.none() | st.floats(-1e6, 1e6),
    ),
    st.builds(
        SessionResetPolicy,
        st.sampled_from(["none", "idle", "daily", "both"]),
        st.integers(0, 23),
        st.integers(1, 3000),
        timezone=st.sampled_from(["UTC", "Asia/Tokyo"]),
    ),
    st.booleans(),
    st.floats(-10, 10_000),
    st.booleans(),
)
def test_what_holds_for_every_decision(
    found: Lane, policy: SessionResetPolicy, busy: bool, freshness: float, exists: bool
) -> None:
    decision = at_noon(found, policy, busy=busy, freshness=freshness, session_exists=exists)
    assert decision == at_noon(found, policy, busy=busy, freshness=freshness, session_exists=exists)
    assert json.loads(json.dumps(decision.facts)) == decision.facts
    assert (decision.action == "reset") <= (decision.reason is not None)
    if found.status == "suspended":
        assert decision.reason == "suspended"
    elif decision.action == "reset":
        assert not busy
        assert decision.reason == expiry_reason(policy, found.updated_at, NOON)
    if decision.action == "resume":
        assert found.status == "resume_pending"


@pytest.mark.parametrize(
    ("reason", "marked", "freshness", "resumes"),
    [
        ("restart_interrupted", HOUR, HOUR, True),
        ("restart_timeout", 0, HOUR, True),
        ("shutdown_timeout", 0, HOUR, True),
        ("restart_interrupted", HOUR + 1, HOUR, False),
        ("restart_interrupted", 9e9, 0, True),
        ("requested by a user", 0, HOUR, False),
    ],
)
def test_which_lanes_resume_without_a_new_message(
    reason: str, marked: float, freshness: float, resumes: bool
) -> None:
    found = lane(0, "resume_pending", marked)._replace(status_reason=reason)
    assert resumes_automatically(found, NOON, freshness) is resumes
    assert not resumes_automatically(found._replace(status="suspended"), NOON, freshness)
    assert not resumes_automatically(found._replace(origin=None), NOON, freshness)
