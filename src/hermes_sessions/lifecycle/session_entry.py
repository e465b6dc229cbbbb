"""SessionEntry: a lane in the form of the documented API and of ``sessions.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.lane import Lane
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.repositories.lane_sessions import LaneSession


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A lane and its session at one moment. Immutable; times have a time zone.

    The flags are derived from the lane's status and its notice: `was_auto_reset`, `is_fresh_reset`
    and related fields are set until `SessionStore.take_notice` returned the notice.
    """

    session_key: str
    session_id: str
    created_at: datetime
    updated_at: datetime
    #: The source of the session.
    origin: SessionSource | None = None
    display_name: str | None = None
    platform: Platform | None = None
    chat_type: str = "dm"
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    total_tokens: int = 0
    estimated_cost_usd: float = 0.0
    cost_status: str = "unknown"
    #: Of the last model call.
    last_prompt_tokens: int = 0
    #: The previous session was ended by the policy or by `suspended`, or is missing.
    was_auto_reset: bool = False
    #: ``idle``, ``daily``, ``suspended``, ``session_missing``.
    auto_reset_reason: str | None = None
    #: Whether the previous session had messages.
    reset_had_activity: bool = False
    #: The user requested a new session.
    is_fresh_reset: bool = False
    #: The expiry watcher has ended this session.
    expiry_finalized: bool = False
    suspended: bool = False
    resume_pending: bool = False
    resume_reason: str | None = None
    last_resume_marked_at: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as in ``sessions.json``: times are local, without a zone."""
        values: dict[str, Any] = {name: getattr(self, name) for name in _WRITTEN}
        for name in ("created_at", "updated_at", "last_resume_marked_at"):
            values[name] = _local_text(values[name])
        values["platform"] = None if self.platform is None else self.platform.value
        if self.origin is not None:
            values["origin"] = self.origin.to_dict()
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SessionEntry:
        """Return the entry that `to_dict`, or the documented system, wrote.

        Raises:
            InvalidInput: not a mapping, a required value is missing, or a value is invalid.
        """
        if not isinstance(values, Mapping):
            raise InvalidInput(f"An entry must be an object, not {type(values).__name__}.")
        missing = [name for name in _REQUIRED if not values.get(name)]
        if missing:
            raise InvalidInput(f"The entry has no {' and no '.join(missing)}.")
        origin = values.get("origin")
        counts: dict[str, Any] = {name: _count(values, name) for name in _COUNTS}
        flags: dict[str, Any] = {name: bool(values.get(name)) for name in _FLAGS}
        return cls(
            session_key=_text(values, "session_key"),
            session_id=_text(values, "session_id"),
            created_at=_moment(values, "created_at"),
            updated_at=_moment(values, "updated_at"),
            origin=None if origin is None else SessionSource.from_dict(origin),
            display_name=_optional_text(values, "display_name"),
            platform=_platform(values.get("platform")),
            chat_type=_optional_text(values, "chat_type") or "dm",
            **counts,
            estimated_cost_usd=_cost(values),
            cost_status=_optional_text(values, "cost_status") or "unknown",
            **flags,
            # The name in older versions.
            expiry_finalized=bool(values.get("expiry_finalized", values.get("memory_flushed"))),
            auto_reset_reason=_optional_text(values, "auto_reset_reason"),
            resume_reason=_optional_text(values, "resume_reason"),
            last_resume_marked_at=_moment_or_none(values, "last_resume_marked_at"),
        )


def entry_of(lane: Lane, session: LaneSession | None) -> SessionEntry:
    """Return the entry for a lane and the session it points at."""
    notice = lane.notice
    was_auto_reset = notice is not None and notice.kind in {"auto_reset", "lost"}
    resume_pending = lane.status == "resume_pending"
    tokens = {
        name: int(getattr(session, name, 0) or 0)
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    }
    return SessionEntry(
        session_key=lane.session_key,
        session_id=lane.session_id,
        created_at=utc_datetime(lane.created_at),
        updated_at=utc_datetime(lane.updated_at),
        origin=lane.origin,
        display_name=lane.display_name,
        platform=_platform(lane.key.platform),
        chat_type=lane.key.chat_type,
        **tokens,
        total_tokens=sum(tokens.values()),
        estimated_cost_usd=session.estimated_cost_usd if session else 0.0,
        cost_status=(session.cost_status if session else None) or "unknown",
        last_prompt_tokens=lane.last_prompt_tokens,
        was_auto_reset=was_auto_reset,
        auto_reset_reason=notice.reason if notice and was_auto_reset else None,
        reset_had_activity=bool(notice and was_auto_reset and notice.had_activity),
        is_fresh_reset=notice is not None and notice.kind == "fresh_reset",
        expiry_finalized=lane.finalized_at is not None,
        suspended=lane.status == "suspended",
        resume_pending=resume_pending,
        resume_reason=lane.status_reason if resume_pending else None,
        last_resume_marked_at=(
            utc_datetime(lane.status_at) if resume_pending and lane.status_at is not None else None
        ),
    )


def utc_datetime(moment: float) -> datetime:
    """Return seconds since the epoch as a UTC datetime."""
    return datetime.fromtimestamp(moment, UTC)


_REQUIRED: Final = ("session_key", "session_id", "created_at", "updated_at")
_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "total_tokens",
    "last_prompt_tokens",
)
#: The largest value of an integer column.
_MOST: Final = 2**63 - 1
#: In year 9999, conversion between time zones can overflow.
_LATEST_YEAR: Final = 9998
_FLAGS: Final = (
    "suspended",
    "resume_pending",
    "is_fresh_reset",
    "was_auto_reset",
    "reset_had_activity",
)
#: In the order of the documented file; ``origin`` follows if it is set.
_WRITTEN: Final = (
    *_REQUIRED,
    "display_name",
    "platform",
    "chat_type",
    *_COUNTS,
    "estimated_cost_usd",
    "cost_status",
    "expiry_finalized",
    "suspended",
    "resume_pending",
    "resume_reason",
    "last_resume_marked_at",
    "is_fresh_reset",
    "was_auto_reset",
    "auto_reset_reason",
    "reset_had_activity",
)


def _platform(name: object) -> Platform | None:
    try:
        return Platform(name)
    except InvalidInput:  # A platform of a plug-in that is not loaded here.
        return None


def _local_text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone().replace(tzinfo=None).isoformat()


def _moment(values: Mapping[str, Any], name: str) -> datetime:
    text = values[name]
    try:
        moment = datetime.fromisoformat(text)
        if moment.year > _LATEST_YEAR:
            raise ValueError("the year is too late")
        # Without a zone it is local time.
        return (moment if moment.tzinfo else moment.astimezone()).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise InvalidInput(f"{name} is {text!r}, which is not a time: {error}.") from error


def _moment_or_none(values: Mapping[str, Any], name: str) -> datetime | None:
    try:
        return _moment(values, name) if values.get(name) else None
    except InvalidInput:
        return None


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values[name]
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be text, not {type(value).__name__}.")
    return value


def _optional_text(values: Mapping[str, Any], name: str) -> str | None:
    return None if values.get(name) is None else _text(values, name)


def _count(values: Mapping[str, Any], name: str) -> int:
    value = values.get(name) or 0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{name} must be a number, not {type(value).__name__}.")
    # Excludes NaN, which Python's JSON accepts, and values too large for a column.
    if not 0 <= value <= _MOST:
        raise InvalidInput(f"{name} is {value!r}; allowed: a number from 0 to {_MOST}.")
    return int(value)


def _cost(values: Mapping[str, Any]) -> float:
    value = values.get("estimated_cost_usd") or 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"estimated_cost_usd must be a number, not {type(value).__name__}.")
    try:
        return float(value)
    except OverflowError as error:
        # JSON integers may have any length.
        raise InvalidInput(f"estimated_cost_usd is too large: {error}.") from error
