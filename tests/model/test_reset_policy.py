"""Reset policies on normal days and on days of 23, 25 or 0 hours."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.reset_policy import (
    SessionResetPolicy,
    expiry_reason,
    last_boundary,
    next_boundary,
    next_expiry,
)
from tests.timezones import host_in

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",  # changes at midnight
    "Australia/Lord_Howe",  # by half an hour
    "Asia/Kathmandu",
    "Pacific/Apia",  # skipped 2011-12-30
    "Africa/Casablanca",
    "Antarctica/Troll",  # by two hours
]
BERLIN = "Europe/Berlin"


def moment(text: str, zone: str = "UTC", *, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def daily(at_hour: int = 4, zone: str = "UTC") -> SessionResetPolicy:
    return SessionResetPolicy("daily", at_hour, timezone=zone)


def test_the_documented_defaults() -> None:
    assert SessionResetPolicy().to_dict() == {
        "mode": "both",
        "at_hour": 4,
        "idle_minutes": 1440,
        "notify": True,
        "notify_exclude_platforms": ["api_server", "webhook"],
        "timezone": None,
    }


def test_exactly_the_idle_time_is_not_too_long() -> None:
    policy = SessionResetPolicy("idle", idle_minutes=60)
    assert expiry_reason(policy, 0, 3600) is None
    assert expiry_reason(policy, 0, 3601) == "idle"
    assert next_expiry(policy, 0) == 3600


def test_the_daily_boundary_belongs_to_the_new_day() -> None:
    before, boundary = moment("2026-03-10T03:59:59"), moment("2026-03-10T04:00:00")
    assert expiry_reason(daily(), before, boundary) == "daily"
    assert expiry_reason(daily(), boundary, boundary + 86_399) is None
    assert expiry_reason(daily(), boundary, boundary + 86_400) == "daily"
    assert next_expiry(daily(), before) == boundary
    assert next_expiry(daily(), boundary) == boundary + 86_400


def test_used_after_yesterdays_boundary_and_not_yet_todays() -> None:
    used, now = moment("2026-03-09T04:00:01"), moment("2026-03-10T03:59:00")
    assert expiry_reason(daily(), used, now) is None


def test_idle_is_named_when_both_hold() -> None:
    policy = SessionResetPolicy("both", idle_minutes=60, timezone="UTC")
    used = moment("2026-03-09T12:00:00")
    assert expiry_reason(policy, used, used + 86_400) == "idle"
    assert expiry_reason(replace(policy, idle_minutes=1440), used, used + 60_000) == "daily"
    assert next_expiry(policy, used) == used + 3600


def test_without_a_mode_nothing_expires() -> None:
    policy = SessionResetPolicy("none", idle_minutes=1)
    assert expiry_reason(policy, 0, 366 * 86_400) is None
    assert next_expiry(policy, 0) is None


@pytest.mark.parametrize(
    ("zone", "at_hour", "used", "boundary"),
    [
        # An hour that is skipped: the moment the clocks are changed.
        (BERLIN, 2, "2026-03-28T12:00:00+00:00", "2026-03-29T01:00:00+00:00"),
        # A day of 23 hours, and one of 25.
        (BERLIN, 4, "2026-03-28T03:00:00+00:00", "2026-03-29T02:00:00+00:00"),
        (BERLIN, 4, "2026-10-24T02:00:00+00:00", "2026-10-25T03:00:00+00:00"),
        # An hour that comes twice: the first, and not again.
        (BERLIN, 2, "2026-10-24T12:00:00+00:00", "2026-10-25T00:00:00+00:00"),
        (BERLIN, 2, "2026-10-25T00:00:00+00:00", "2026-10-26T01:00:00+00:00"),
        # Midnight is skipped.
        ("America/Santiago", 0, "2026-09-05T12:00:00+00:00", "2026-09-06T04:00:00+00:00"),
        # A day is skipped.
        ("Pacific/Apia", 4, "2011-12-29T20:00:00+00:00", "2011-12-30T14:00:00+00:00"),
        ("Pacific/Apia", 4, "2011-12-30T14:00:00+00:00", "2011-12-31T14:00:00+00:00"),
        # The end of a year, the last day of February.
        ("Asia/Kathmandu", 0, "2026-12-31T12:00:00+00:00", "2026-12-31T18:15:00+00:00"),
        ("UTC", 23, "2027-02-28T23:00:00+00:00", "2027-03-01T23:00:00+00:00"),
    ],
)
def test_days_on_which_clocks_are_changed(
    zone: str, at_hour: int, used: str, boundary: str
) -> None:
    policy = daily(at_hour, zone)
    last_used, expected = (datetime.fromisoformat(text).timestamp() for text in (used, boundary))
    assert next_expiry(policy, last_used) == expected
    assert expiry_reason(policy, last_used, expected - 0.001) is None
    assert expiry_reason(policy, last_used, expected) == "daily"


moments = st.floats(
    datetime(2010, 1, 1, tzinfo=UTC).timestamp(), datetime(2040, 1, 1, tzinfo=UTC).timestamp()
)
policies = st.builds(
    SessionResetPolicy,
    mode=st.sampled_from(["none", "idle", "daily", "both"]),
    at_hour=st.integers(0, 23),
    idle_minutes=st.integers(1, 5_000),
    timezone=st.sampled_from(ZONES),
)


@given(policies, moments, st.floats(0, 200_000))
def test_what_has_expired_is_what_is_past_its_next_expiry(
    policy: SessionResetPolicy, used: float, passed: float
) -> None:
    deadline, now = next_expiry(policy, used), used + passed
    reason = expiry_reason(policy, used, now)
    if deadline is None or now < deadline:
        assert reason is None
    elif now > deadline:
        assert reason is not None
    else:
        assert reason == (
            "daily" if policy.mode != "idle" and deadline in boundaries(policy, used) else None
        )


def boundaries(policy: SessionResetPolicy, used: float) -> set[float]:
    return {next_boundary(policy, used)}


@given(policies, moments)
def test_a_clock_that_runs_backwards_expires_nothing(
    policy: SessionResetPolicy, now: float
) -> None:
    assert expiry_reason(policy, now + 0.001, now) is None
    assert expiry_reason(policy, now + 1e9, now) is None
    assert expiry_reason(policy, now, now) is None


@given(policies, moments)
def test_there_is_one_boundary_a_day(policy: SessionResetPolicy, now: float) -> None:
    last, following = last_boundary(policy, now), next_boundary(policy, now)
    assert last <= now < following
    assert next_boundary(policy, last) == following
    assert timedelta(hours=21) <= timedelta(seconds=following - last) <= timedelta(hours=27)
    shown = datetime.fromtimestamp(last, ZoneInfo(policy.timezone or "UTC"))
    offset_before = datetime.fromtimestamp(last - 10_800, shown.tzinfo).utcoffset()
    if shown.utcoffset() == offset_before:
        assert (shown.hour, shown.minute, shown.second) == (policy.at_hour, 0, 0)


@given(policies)
def test_policies_survive_being_kept(policy: SessionResetPolicy) -> None:
    assert SessionResetPolicy.from_dict(policy.to_dict()) == policy


@pytest.mark.parametrize("used", [float("-inf"), -1e18, 1e18, float("inf")])
def test_moments_no_calendar_has(used: float) -> None:
    assert next_expiry(SessionResetPolicy(timezone="UTC"), used) is not None
    assert expiry_reason(daily(), used, 1e9) in {None, "daily"}


@pytest.fixture
def host_in_berlin() -> Iterator[None]:
    with host_in(BERLIN):
        yield
    assert os.environ.get("TZ") != BERLIN


@pytest.mark.usefixtures("host_in_berlin")
@pytest.mark.parametrize("at_hour", [0, 2, 3, 4])
def test_without_a_zone_it_is_the_hosts(at_hour: int) -> None:
    here, there = SessionResetPolicy("daily", at_hour), daily(at_hour, BERLIN)
    for day in ("2026-03-28", "2026-03-29", "2026-10-24", "2026-10-25", "2026-12-31"):
        for hour in range(24):
            now = moment(f"{day}T{hour:02}:30:00")
            assert last_boundary(here, now) == last_boundary(there, now)
            assert next_boundary(here, now) == next_boundary(there, now)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"mode": "nightly"}, "allowed: none, idle, daily, both"),
        ({"at_hour": 24}, "0 to 23"),
        ({"at_hour": -1}, "0 to 23"),
        ({"at_hour": "4"}, "0 to 23"),
        ({"at_hour": True}, "0 to 23"),
        ({"idle_minutes": 0}, "greater than 0"),
        ({"idle_minutes": -4}, "greater than 0"),
        ({"idle_minutes": float("nan")}, "greater than 0"),
        ({"idle_minutes": "60"}, "greater than 0"),
        ({"timezone": "Mars/Olympus"}, "Europe/Berlin"),
        ({"timezone": "../../etc/passwd"}, "Europe/Berlin"),
        ({"timezone": ""}, "Europe/Berlin"),
        ({"notify_exclude_platforms": "webhook"}, "a list"),
    ],
)
def test_values_that_are_not_allowed(values: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        SessionResetPolicy.from_dict(values)


def test_null_means_the_default() -> None:
    read = SessionResetPolicy.from_dict({"mode": None, "at_hour": 5, "later": 1})
    assert read == SessionResetPolicy(at_hour=5)


def test_who_is_told() -> None:
    policy = SessionResetPolicy(notify_exclude_platforms=("Webhook",))
    assert policy.notifies("telegram")
    assert not policy.notifies("webhook")
    assert not replace(policy, notify=False).notifies("telegram")
