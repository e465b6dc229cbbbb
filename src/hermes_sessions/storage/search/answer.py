"""The results of a search: hits, the report on how they were found, and cursors to next pages."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from hermes_sessions.errors import InvalidInput

#: The largest integer a cursor may contain: JSON readers keep integers up to it exact.
_LARGEST: Final = 2**53
_FIELDS: Final = ("question", "asked_at", "offset", "last_id", "through", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A position in the result list of one search. Messages stored later are not in that list."""

    #: The checksum of the search, so that a cursor cannot continue another one.
    question: int
    #: When the first page was requested: ``after:7d`` keeps its meaning on every page.
    asked_at: float
    #: The number of hits before the page, and the id of the last one if it is known.
    offset: int = 0
    last_id: int | None = None
    #: The list contains messages up to this id; None before the first page.
    through: int | None = None
    #: The timestamp, session and ordinal of that hit, if the list continues by time.
    key: tuple[float, str, int] | None = None


def checksum(*parts: object) -> int:
    """Return a checksum that identifies a search."""
    return zlib.crc32(repr(parts).encode("utf-8", "surrogatepass"))


def write_cursor(cursor: Cursor) -> str:
    """Return the cursor encoded as text."""
    values = [getattr(cursor, name) for name in _FIELDS]
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


def read_cursor(text: str, question: int) -> Cursor:
    """Return the cursor that `write_cursor` encoded.

    Raises:
        InvalidInput: the text is not a cursor, or it belongs to another search.
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
            "The cursor is not valid. Pass the next_cursor of an earlier answer."
        ) from error
    if cursor.question != question:
        raise InvalidInput("The cursor belongs to another search; use it with the same query.")
    return cursor


def _key(timestamp: Any, session_id: Any, ordinal: Any) -> tuple[float, str, int]:
    if not isinstance(session_id, str):
        raise TypeError("not a session id")
    return _finite(timestamp), session_id, _whole(ordinal)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise ValueError("not an integer in range")
    return value


def _id(value: Any) -> int:
    # Other programs may have stored messages with ids below 1.
    return -_whole(-value) if isinstance(value, int) and value < 0 else _whole(value)


def _finite(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError("not a finite number")
    return float(value)


#: Counting stops here; beyond it an answer says "more than".
COUNT_LIMIT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A message that a search found."""

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
    """How a search found its hits, how many there are, and what it left out."""

    query: str
    #: The step of relaxation that found the hits; see `hermes_sessions.text.query.relaxation`.
    step: str = "as asked"
    #: Matches within scope and filters; `COUNT_LIMIT` and ``total_is_exact`` False means more.
    total: int = 0
    total_is_exact: bool = True
    #: The number of newest matches that were ranked by relevance.
    ranked: int = 0
    #: The number of matches each filter removed, counted up to `COUNT_LIMIT`.
    removed: dict[str, int] = field(default_factory=dict)
    #: When no message satisfies all operators and quotes: the number of messages that match each
    #: operand; for an excluded operand, the number that it removed.
    sides: dict[str, int] = field(default_factory=dict)
    #: The corrections that were needed to parse the query.
    repairs: list[str] = field(default_factory=list)
    #: Whether every message was searched.
    complete: bool = True
    #: Messages that were not indexed yet. A search reads them directly as long as they are few.
    not_indexed: int = 0
    #: Messages that were read one by one because the index could not narrow the query down.
    scanned: int = 0
    notes: list[str] = field(default_factory=list)
    elapsed_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """The hits in order, the report, and the cursor to the next page."""

    hits: list[Hit]
    report: SearchReport
    #: Pass it as *cursor* to get the next page; None after the last page.
    next_cursor: str | None = None

    @property
    def account(self) -> SearchReport:
        """The report, under its name in version 0.2."""
        return self.report


#: The name of `SearchReport` in version 0.2.
Account = SearchReport
