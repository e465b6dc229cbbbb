"""Where a page begins: a place in one list, as a piece of text that callers hand back."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from dataclasses import dataclass
from typing import Any, Final

from hermes_sessions.errors import InvalidInput

_LARGEST: Final = 2**53
_FIELDS: Final = ("question", "asked_at", "offset", "last_id", "through", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A place in the list that one question gives. Messages stored later do not belong to it."""

    #: The checksum of the question, so that no other is continued.
    question: int
    #: When the question was asked: ``after:7d`` keeps its meaning on every page.
    asked_at: float
    #: How many hits stand before the page, and the id of the last of them, where it is known.
    offset: int = 0
    last_id: int | None = None
    #: Messages up to this id belong to the list; None before the first page.
    through: int | None = None
    #: The time, session and place of that hit, where the list goes on by time.
    key: tuple[float, str, int] | None = None


def checksum(*parts: object) -> int:
    """Return what tells one question from another."""
    return zlib.crc32(repr(parts).encode("utf-8", "surrogatepass"))


def write_cursor(cursor: Cursor) -> str:
    """Return the cursor as text."""
    values = [getattr(cursor, name) for name in _FIELDS]
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


def read_cursor(text: str, question: int) -> Cursor:
    """Return the cursor from its text.

    Raises:
        InvalidInput: no search returned it, or another one.
    """
    try:
        values = json.loads(base64.b64decode(text, altchars=b"-_", validate=True))
        number, asked_at, offset, last_id, through, key = values
        cursor = Cursor(
            question=_whole(number),
            through=_id(through),
            asked_at=_finite(asked_at),
            offset=_whole(offset),
            last_id=_id(last_id),
            key=None if key is None else _key(*key),
        )
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise InvalidInput(
            "The cursor is not one that a search returned. Give the next_cursor of an answer."
        ) from error
    if cursor.question != question:
        raise InvalidInput("The cursor belongs to another search; use it with the same question.")
    return cursor


def _key(timestamp: Any, session_id: Any, ordinal: Any) -> tuple[float, str, int]:
    if not isinstance(session_id, str):
        raise TypeError("a session id is text")
    return _finite(timestamp), session_id, _whole(ordinal)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise ValueError("no whole number")
    return value


def _id(value: Any) -> int:
    # Other programs may have stored messages with ids below 1.
    return -_whole(-value) if isinstance(value, int) and value < 0 else _whole(value)


def _finite(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError("no finite number")
    return float(value)
