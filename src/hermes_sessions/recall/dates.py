"""Dates as a model reads them best: spelled out, in English, whatever the host's language."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Final

_MONTHS: Final = (
    "January February March April May June July August September October November December"
).split()


def long_date(moment: float, zone: tzinfo | None = None) -> str:
    """Return ``May 01, 2026 at 02:30 PM``, in the host's time zone unless *zone* is given."""
    try:
        then = datetime.fromtimestamp(moment, zone)
    except (ValueError, OverflowError, OSError):
        # The store takes any number as a time; calendars do not.
        return "unknown"
    half = "PM" if then.hour >= 12 else "AM"
    hour = then.hour % 12 or 12
    month = _MONTHS[then.month - 1]
    return f"{month} {then.day:02}, {then.year} at {hour:02}:{then.minute:02} {half}"
