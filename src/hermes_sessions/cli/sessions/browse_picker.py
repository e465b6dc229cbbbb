"""The picker's state: the search text, the list of sessions, and the selected row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from hermes_sessions.cli.selection import EVERYTHING, Selection
from hermes_sessions.cli.session_lookup import preview_of_session
from hermes_sessions.storage.search.answer import Hit
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.text.query.filters import SearchConditions

Record = Mapping[str, Any]

#: Rows are loaded in pages, so that only what the user scrolls to is read.
_PAGE = 50
#: Shorter beginnings of ids match nearly all of them: they start with a year.
_ID_AT_LEAST = 5
#: How many sessions are found by title and by id.
_BY_NAME = 20


class Row(NamedTuple):
    """One session of the list."""

    id: str
    name: str
    source: str
    last_active: float | None
    pinned: bool = False
    #: Where the search found its text in this session.
    hit: Hit | None = None


def rows_for(
    db: SessionDB,
    text: str,
    source: str | None,
    hidden: Sequence[str],
    selection: Selection = EVERYTHING,
) -> Iterator[Row]:
    """Yield the sessions that match *text*, best first, or all, most recently active first.

    Sessions whose title or id starts with the text come first, then those found by a search for its
    words; the last word may be incomplete. Sources in *hidden* are skipped unless *source* is one,
    and sessions that *selection* does not select.
    """
    wanted = text.strip()
    found = (
        _found(db, wanted, source, hidden, selection)
        if wanted
        else _latest(db, source, hidden, selection)
    )
    seen: set[str] = set()
    for row in found:
        # A session that is used while we read may appear on two pages.
        if row.id not in seen:
            seen.add(row.id)
            yield row


def _latest(
    db: SessionDB, source: str | None, hidden: Sequence[str], selection: Selection
) -> Iterator[Row]:
    offset = 0
    while page := db.list_sessions_rich(
        source=source,
        exclude_sources=None if source else hidden,
        limit=_PAGE,
        offset=offset,
        compact_rows=True,
        **selection.parameters(),
    ):
        yield from map(_row, page)
        offset += len(page)


def _found(
    db: SessionDB,
    text: str,
    source: str | None,
    hidden: Sequence[str],
    selection: Selection,
) -> Iterator[Row]:
    named = [session_id for _, session_id in db.find_session_titles(text, limit=_BY_NAME)]
    if len(text) >= _ID_AT_LEAST:
        named += db.find_session_ids(text, limit=_BY_NAME)
    # A selection is searched as a whole: names of other sessions are not of interest.
    for session_id in named if selection == EVERYTHING else ():
        session = db.get_session(session_id)
        if session is not None and _is_shown(session["source"], source, hidden):
            yield _row({**session, "preview": preview_of_session(db, session_id)})
    conditions = selection.narrowed(
        SearchConditions(
            sources=(source,) if source else None, exclude_sources=() if source else tuple(hidden)
        )
    )
    # The last word may still be incomplete.
    query = f"{text}*" if text[-1].isalnum() else text
    cursor: str | None = None
    while True:
        answer = db.search(query, conditions=conditions, limit=_PAGE, cursor=cursor, count=False)
        for hit in answer.hits:
            yield _row_of_hit(db, hit)
        cursor = answer.next_cursor
        if cursor is None:
            return


def _is_shown(found: str, source: str | None, hidden: Sequence[str]) -> bool:
    return found == source if source else found not in hidden


def _row(session: Record) -> Row:
    return Row(
        id=session["id"],
        name=session["title"] or session.get("preview") or "",
        source=session["source"],
        last_active=session.get("last_active") or session["started_at"],
        pinned=bool(session["pinned_at"]),
    )


def _row_of_hit(db: SessionDB, hit: Hit) -> Row:
    return Row(
        id=hit.session_id,
        name=hit.title or preview_of_session(db, hit.session_id),
        source=hit.source,
        last_active=hit.timestamp,
        hit=hit,
    )


#: Returns the rows that match a text, lazily.
Find = Callable[[str], Iterator[Row]]
#: How many rows are loaded ahead of the selected one.
_AHEAD: Final = 50


class Picker:
    """The state of the list; the terminal shows it and reports key presses to it."""

    def __init__(self, find: Find, *, page: int = 10) -> None:
        self._find = find
        #: How many rows a page has.
        self.page = page
        self.text = ""
        self.rows: list[Row] = []
        self.selected = 0
        #: Whether the user quit without choosing.
        self.left = False
        self._search()

    @property
    def chosen(self) -> Row | None:
        """The row under the cursor, None in an empty list."""
        return self.rows[self.selected] if self.rows else None

    @property
    def has_more(self) -> bool:
        """Whether more rows may follow those loaded so far."""
        return self._has_more

    def type(self, text: str) -> None:
        """Add *text* to the search; ``q`` quits while the search is empty."""
        if text == "q" and not self.text:
            self.leave()
        elif text.isprintable():
            self._change(self.text + text)

    def erase(self) -> None:
        """Delete the last character."""
        self._change(self.text[:-1])

    def clear(self) -> None:
        """Clear the search."""
        self._change("")

    def escape(self) -> None:
        """Clear the search, or quit if it is empty."""
        if self.text:
            self.clear()
        else:
            self.leave()

    def leave(self) -> None:
        """Quit without choosing."""
        self.left = True

    def move(self, steps: int) -> None:
        """Move down, or up with a negative number; a single step wraps around at the ends."""
        if not self.rows:
            return
        wanted = self.selected + steps
        self._take(wanted + _AHEAD)
        last = len(self.rows) - 1
        if abs(steps) == 1 and not 0 <= wanted <= last:
            self.selected = 0 if wanted > last else last
        else:
            self.selected = min(max(wanted, 0), last)

    def first(self) -> None:
        """Select the first row."""
        self.selected = 0

    def last(self) -> None:
        """Select the last row loaded so far."""
        self.selected = max(len(self.rows) - 1, 0)

    def _change(self, text: str) -> None:
        if text != self.text:
            self.text = text
            self._search()

    def _search(self) -> None:
        self._coming = self._find(self.text)
        self._has_more = True
        self.rows, self.selected = [], 0
        self._take(_AHEAD)

    def _take(self, count: int) -> None:
        missing = count - len(self.rows)
        if missing > 0 and self._has_more:
            more = list(islice(self._coming, missing))
            self.rows += more
            self._has_more = len(more) == missing
