"""Times, counts and sizes in a readable form."""

from __future__ import annotations

import time

# ── counts and sizes ──────────────────────────────────────────────────────────────────────────


_UNITS = ("KB", "MB", "GB", "TB")


def counted(number: int, singular: str) -> str:
    """Return ``1 session``, ``2 sessions``; no digit grouping, so that scripts can parse it."""
    return f"{number} {singular if number == 1 else singular + 's'}"


def size(number_of_bytes: int) -> str:
    """Return a size with one decimal, in units of 1024: ``12.4 MB``."""
    if number_of_bytes < 1024:
        return counted(number_of_bytes, "byte")
    value, unit = number_of_bytes / 1024, 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {_UNITS[unit]}"


_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def relative_time(timestamp: float | None, now: float) -> str:
    """Return how long ago *timestamp* was, or its date after a week; ``?`` if unknown."""
    if timestamp is None:
        return "?"
    age = now - timestamp
    if age < -_MINUTE or age >= 7 * _DAY:
        return date(timestamp)
    if _DAY <= age < 2 * _DAY:
        return "yesterday"
    for unit, letter in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if age >= unit:
            return f"{int(age // unit)}{letter} ago"
    return "just now"


def moment(timestamp: float | None, now: float) -> str:
    """Return the local date and time, followed by how long ago that was if within a week."""
    exact, ago = date_and_time(timestamp), relative_time(timestamp, now)
    return exact if exact.startswith(ago) else f"{exact} ({ago})"


def date(timestamp: float | None) -> str:
    """Return the local date, ``YYYY-MM-DD``; ``?`` if unknown."""
    return _formatted(timestamp, "%Y-%m-%d")


def date_and_time(timestamp: float | None) -> str:
    """Return the local date and time to the second; ``?`` if unknown."""
    return _formatted(timestamp, "%Y-%m-%d %H:%M:%S")


def _formatted(timestamp: float | None, form: str) -> str:
    if timestamp is None:
        return "?"
    try:
        return time.strftime(form, time.localtime(timestamp))
    except (OverflowError, ValueError, OSError):
        # An imported file may contain any number; an invalid one must not hide the other rows.
        return "?"
