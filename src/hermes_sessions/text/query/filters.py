"""Filters on a message or its session, from the query text or from parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final

from hermes_sessions.text.query.parser import META
from hermes_sessions.text.query.tree import Filter

#: The values of ``has:``.
HAS_VALUES: Final = ("error", "tool_calls", "title")
_AGO = re.compile(r"(\d{1,6})\s*(m|min|h|d|w|mo|y)", re.IGNORECASE)
_SECONDS: Final = {
    "m": 60,
    "min": 60,
    "h": 3600,
    "d": 86400,
    "w": 7 * 86400,
    "mo": 30 * 86400,
    "y": 365 * 86400,
}
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConditions:
    """What a message must satisfy besides the text. None or an empty tuple means no condition."""

    sources: tuple[str, ...] | None = None
    exclude_sources: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    exclude_roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    exclude_tools: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    exclude_models: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    exclude_users: tuple[str, ...] = ()
    #: Session ids or id prefixes; an existing id means that session only.
    sessions: tuple[str, ...] = ()
    exclude_sessions: tuple[str, ...] = ()
    #: Titles; a title includes its whole numbered family.
    titles: tuple[str, ...] = ()
    exclude_titles: tuple[str, ...] = ()
    conversations: tuple[str, ...] = ()
    exclude_conversations: tuple[str, ...] = ()
    #: All of `tags` must be there, none of `exclude_tags`.
    tags: tuple[str, ...] = ()
    exclude_tags: tuple[str, ...] = ()
    #: Keys of the metadata and their values as text; several values of a key are alternatives.
    metadata: tuple[tuple[str, str], ...] = ()
    exclude_metadata: tuple[tuple[str, str], ...] = ()
    #: Ids or names.
    workspaces: tuple[str, ...] = ()
    exclude_workspaces: tuple[str, ...] = ()
    #: Seconds since the epoch: at or after, and strictly before.
    after: float | None = None
    before: float | None = None
    #: Of `HAS_VALUES`: all of `has` must hold, none of `exclude_has`.
    has: tuple[str, ...] = ()
    exclude_has: tuple[str, ...] = ()
    include_archived: bool = True
    #: Whether rewound messages are also found.
    include_rewound: bool = False

    def given(self) -> list[str]:
        """Return the names of the conditions that are set."""
        nothing = SearchConditions()
        return [
            item.name
            for item in fields(self)
            if getattr(self, item.name) != getattr(nothing, item.name)
        ]


#: The former name.
Conditions = SearchConditions

_FIELD_OF: Final = {
    "source": "sources",
    "role": "roles",
    "tool": "tools",
    "model": "models",
    "user": "users",
    "session": "sessions",
    "in": "titles",
    "tag": "tags",
    "workspace": "workspaces",
    "has": "has",
}


def read_filters(
    filters: Iterable[Filter], now: float, zone: tzinfo | None = None
) -> tuple[SearchConditions, list[str]]:
    """Return the filters of a query as conditions, and messages about filters that were ignored.

    Several values of one name are alternatives; different names must all hold, and so must each
    ``has``, ``tag``, ``before`` and ``after``. Dates are in *zone*, or in the host's time zone.
    """
    added: dict[str, Any] = {}
    problems: list[str] = []
    for item in filters:
        if item.name in ("before", "after"):
            problem = _add_time(added, item, read_time(item.value, now, zone))
        elif item.name == "has" and item.value.lower() not in HAS_VALUES:
            problem = f"ignored has:{item.value}; use one of: {', '.join(HAS_VALUES)}"
        else:
            problem = None
            is_meta = item.name.startswith(META)
            name = "metadata" if is_meta else _FIELD_OF[item.name]
            if item.excluded:
                name = "exclude_" + name
            values = ((item.name.removeprefix(META), item.value),) if is_meta else _spellings(item)
            added[name] = (*added.get(name, ()), *values)
        if problem:
            problems.append(problem)
    return SearchConditions(**added), problems


def _spellings(item: Filter) -> tuple[str, ...]:
    """Return the values that a filter matches; sources and roles also in lower case."""
    small = item.value.lower()
    if item.name == "has":
        return (small,)
    is_name = item.name in ("source", "role") and small != item.value
    return (item.value, small) if is_name else (item.value,)


def _add_time(added: dict[str, Any], item: Filter, moment: float | None) -> str | None:
    # -before:X is "at or after X", and the other way round.
    name = item.name if not item.excluded else {"before": "after", "after": "before"}[item.name]
    if moment is None:
        return (
            f"ignored {item.name}:{item.value}: not a date; try 7d, 12h, today, yesterday, "
            f"2026-05-01 or 2026-05"
        )
    earlier = added.get(name)
    stricter = max if name == "after" else min
    added[name] = moment if earlier is None else stricter(earlier, moment)
    return None


def read_time(text: str, now: float, zone: tzinfo | None = None) -> float | None:
    """Return the time that a text means, in seconds since the epoch, or None.

    Accepted are dates (2026-05-01, 2026-05, 2026), times (2026-05-01T10:30), ages (30min, 12h,
    7d, 2w, 3mo, 1y), ``today``, ``yesterday`` and seconds since the epoch. Dates are in *zone*, or
    in the host's time zone.
    """
    value = text.strip().lower()
    try:
        if ago := _AGO.fullmatch(value):
            return now - int(ago[1]) * _SECONDS[ago[2]]
        if value in ("today", "yesterday"):
            today = datetime.fromtimestamp(now, zone).replace(
                hour=0, minute=0, second=0, microsecond=0
            )
            return (today - timedelta(days=value == "yesterday")).timestamp()
        if date := _DATE.fullmatch(value):
            year, month, day = int(date[1]), int(date[2] or 1), int(date[3] or 1)
            return datetime(year, month, day, tzinfo=zone).timestamp()
        if value.replace(".", "", 1).isdigit() and len(value) >= 9:
            return float(value)
        moment = datetime.fromisoformat(value.upper())
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
