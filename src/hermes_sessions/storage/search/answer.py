"""What a search returns: hits, and an account of how they were found."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from hermes_sessions.errors import InvalidInput

# Where a page begins: a place in one list, as a piece of text that callers hand back.


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


#: Counting stops here; beyond it an answer says "more than".
COUNT_LIMIT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One message that was found."""

    id: int
    session_id: str
    role: str
    #: Text around the matches, marked ``>>>match<<<``. To show matches in another way, use
    #: ``snippet_text`` and ``spans``: the text may contain such markers of its own.
    snippet: str
    timestamp: float
    tool_name: str | None
    source: str
    model: str | None
    session_started: float
    #: The message before, this one and the one after, cut to 200 characters.
    context: list[dict[str, str]]
    title: str | None
    conversation_id: str
    ordinal: int
    #: ``message``, or ``title`` when only the session's title matches.
    matched: str = "message"
    #: Relevance; None for other orders.
    score: float | None = None
    #: The snippet without markers.
    snippet_text: str = ""
    #: Where the matches are in ``snippet_text``: (start, end) offsets, in order.
    spans: list[tuple[int, int]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the hit as a plain dict."""
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class SearchReport:
    """How an answer came about."""

    query: str
    #: Which reading found the hits; see `hermes_sessions.text.query.relaxation`.
    step: str = "as asked"
    #: Matches within scope and filters; `COUNT_LIMIT` and ``total_is_exact`` False means more.
    total: int = 0
    total_is_exact: bool = True
    #: How many of the newest matches relevance was computed over.
    ranked: int = 0
    #: By filter: how many matches it removed, counted up to `COUNT_LIMIT`.
    removed: dict[str, int] = field(default_factory=dict)
    #: When nothing matches all that operators and quotes require: how many messages match each
    #: side; of what is excluded, how many it left out.
    sides: dict[str, int] = field(default_factory=dict)
    #: What had to be mended to read the query.
    repairs: list[str] = field(default_factory=list)
    #: Whether every message was searched.
    complete: bool = True
    #: Messages the index did not hold yet; looked at directly while they are few.
    not_indexed: int = 0
    #: Messages looked at one by one, where the index could not narrow down.
    scanned: int = 0
    notes: list[str] = field(default_factory=list)
    elapsed_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """Hits in order, the account, and where the next page begins."""

    hits: list[Hit]
    account: SearchReport
    #: Pass it as *cursor* to get the next page; None when there is none.
    next_cursor: str | None = None
