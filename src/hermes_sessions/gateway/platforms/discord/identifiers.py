"""Discord's ids: numbers that grow with time, written as text."""

from __future__ import annotations

import re
from typing import Final, TypeGuard

#: The first second of 2015, from which they count milliseconds.
_EPOCH: Final = 1_420_070_400.0
#: Below the milliseconds are numbers of a machine and a counter.
_SHIFT: Final = 22
_ID: Final = re.compile(r"[0-9]{1,20}")


def is_snowflake(value: object) -> TypeGuard[str]:
    """Tell whether something is an id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def snowflake_at(seconds: float) -> int:
    """Return the smallest id of a moment, given in seconds since 1970."""
    return max(0, int((seconds - _EPOCH) * 1000)) << _SHIFT


def time_of(snowflake: int) -> float:
    """Return when an id was made, in seconds since 1970."""
    return (snowflake >> _SHIFT) / 1000 + _EPOCH
