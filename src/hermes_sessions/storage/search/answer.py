"""What a search returns: hits, and an account of how they were found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

#: Counting stops here; beyond it an answer says "more than".
COUNT_LIMIT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One message that was found."""

    id: int
    session_id: str
    role: str
    #: Text around the matches, marked ``>>>match<<<``.
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

    def as_dict(self) -> dict[str, Any]:
        """Return the hit as a plain dict."""
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class Account:
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
class Answer:
    """Hits in order, the account, and where the next page begins."""

    hits: list[Hit]
    account: Account
    #: Pass it as *cursor* to get the next page; None when there is none.
    next_cursor: str | None = None
