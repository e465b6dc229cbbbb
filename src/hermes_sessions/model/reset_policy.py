"""When a conversation resets automatically: policies and the times they define.

Times are seconds since the epoch. The daily boundary is the first moment of a day at which local
time in the policy's zone reaches the hour, or would if daylight saving did not skip that hour. So
there is exactly one boundary each day, however clocks change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, get_args
from zoneinfo import ZoneInfo

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model import reset_defaults
from hermes_sessions.model.reset_defaults import ResetMode

ExpiryReason = Literal["idle", "daily"]

MODES: Final[tuple[ResetMode, ...]] = get_args(ResetMode)
#: Times outside this range are clamped to it: the calendar cannot represent their days.
_EARLIEST: Final = datetime(1902, 1, 1, tzinfo=UTC).timestamp()
_LATEST: Final = datetime(9990, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class SessionResetPolicy:
    """When a lane gets a new session automatically, and whether the user is notified.

    Raises:
        InvalidInput: a value is not allowed; the message says which are.
    """

    #: ``none``, ``idle``, ``daily``, or ``both``: whichever comes first.
    mode: ResetMode = reset_defaults.MODE
    #: The hour of the daily reset, 0 to 23.
    at_hour: int = reset_defaults.AT_HOUR
    #: Minutes without activity before a reset.
    idle_minutes: float = reset_defaults.IDLE_MINUTES
    #: Whether the user is notified.
    notify: bool = reset_defaults.NOTIFY
    #: Platforms where a notification would reach no reader.
    notify_exclude_platforms: tuple[str, ...] = reset_defaults.NOTIFY_EXCLUDE_PLATFORMS
    #: The time zone of the hour, like ``Europe/Berlin``; None means the host's.
    timezone: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InvalidInput(f"The mode is {self.mode!r}; allowed: {', '.join(MODES)}.")
        if not is_hour(self.at_hour):
            raise InvalidInput(f"at_hour is {self.at_hour!r}; allowed: a whole number, 0 to 23.")
        if not is_idle_time(self.idle_minutes):
            raise InvalidInput(
                f"idle_minutes is {self.idle_minutes!r}; allowed: a number greater than 0."
            )
        if self.timezone is not None and not is_zone(self.timezone):
            raise InvalidInput(
                f"The time zone is {self.timezone!r}; allowed: names like Europe/Berlin or UTC."
            )
        excluded = tuple(str(name).lower() for name in self.notify_exclude_platforms)
        object.__setattr__(self, "notify_exclude_platforms", excluded)

    def notifies(self, platform: str) -> bool:
        """Tell whether users on this platform are notified of a reset."""
        return self.notify and platform.lower() not in self.notify_exclude_platforms

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-serialisable values."""
        return {**asdict(self), "notify_exclude_platforms": list(self.notify_exclude_platforms)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SessionResetPolicy:
        """Return the policy with these fields. Missing and null fields get their defaults; unknown
        names are ignored.

        Raises:
            InvalidInput: a value is not allowed.
        """
        known = {name: values[name] for name in _FIELDS if values.get(name) is not None}
        excluded = known.get("notify_exclude_platforms", ())
        if isinstance(excluded, str) or not isinstance(excluded, (list, tuple)):
            raise InvalidInput("notify_exclude_platforms must be a list of platform names.")
        return cls(**known)


_FIELDS: Final = tuple(field.name for field in fields(SessionResetPolicy))


def is_hour(value: object) -> bool:
    """Tell whether a value is a valid hour of the daily reset."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 23


def is_idle_time(value: object) -> bool:
    """Tell whether a value is a valid number of idle minutes."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < float("inf")  # type: ignore[operator]


def is_zone(name: object) -> bool:
    """Tell whether a name is a known time zone."""
    try:
        return isinstance(name, str) and bool(_zone(name))
    except (OSError, ValueError, LookupError):  # missing file, malformed name, unknown zone
        return False


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def expiry_reason(policy: SessionResetPolicy, updated_at: float, now: float) -> ExpiryReason | None:
    """Return why a lane last used at *updated_at* has expired by now, or None if it has not.

    Idle means longer than `idle_minutes`; at exactly that time it has not yet expired. Daily means
    last used before the latest boundary. When both apply, the reason is idle. A clock that ran
    backwards expires nothing.
    """
    if policy.mode in {"idle", "both"} and now > updated_at + policy.idle_minutes * 60:
        return "idle"
    if policy.mode in {"daily", "both"} and updated_at < last_boundary(policy, now):
        return "daily"
    return None


def next_expiry(policy: SessionResetPolicy, updated_at: float) -> float | None:
    """Return when a lane last used at *updated_at* expires, or None for never.

    It expires at this moment if that is a daily boundary, and right after it if it is idle time.
    """
    moments = []
    if policy.mode in {"idle", "both"}:
        moments.append(updated_at + policy.idle_minutes * 60)
    if policy.mode in {"daily", "both"}:
        moments.append(next_boundary(policy, updated_at))
    return min(moments, default=None)


def last_boundary(policy: SessionResetPolicy, now: float) -> float:
    """Return the latest daily boundary that is not after *now*."""
    return max(moment for moment in _boundaries_near(policy, now) if moment <= _within(now))


def next_boundary(policy: SessionResetPolicy, moment: float) -> float:
    """Return the first daily boundary after *moment*."""
    return min(found for found in _boundaries_near(policy, moment) if found > _within(moment))


def _boundaries_near(policy: SessionResetPolicy, moment: float) -> list[float]:
    # Two days each way: a zone can skip a whole day, and the hour of a day can be a day off.
    zone = None if policy.timezone is None else _zone(policy.timezone)
    today = datetime.fromtimestamp(_within(moment), zone).date()
    return [_moment_of(today + timedelta(days=n), policy.at_hour, zone) for n in range(-2, 3)]


def _moment_of(day: date, hour: int, zone: ZoneInfo | None) -> float:
    # Without a zone this is the host's time. An hour that occurs twice means its first occurrence;
    # a skipped hour is computed as if clocks had not changed yet.
    return datetime(day.year, day.month, day.day, hour, tzinfo=zone).timestamp()


def _within(moment: float) -> float:
    return min(max(moment, _EARLIEST), _LATEST)
