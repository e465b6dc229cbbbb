"""Numbers with their units."""

from __future__ import annotations

_UNITS = ("KB", "MB", "GB", "TB")


def counted(number: int, singular: str) -> str:
    """Return ``1 session``, ``2 sessions``; digits are not grouped, so that scripts can read it."""
    return f"{number} {singular if number == 1 else singular + 's'}"


def size(number_of_bytes: int) -> str:
    """Return a size with one decimal, in units of 1024: ``12.4 MB``."""
    if number_of_bytes < 1024:
        return counted(number_of_bytes, "byte")
    value, unit = number_of_bytes / 1024, 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {_UNITS[unit]}"
