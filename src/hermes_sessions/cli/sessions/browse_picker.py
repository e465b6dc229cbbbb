"""What keys do: the text that is searched for, the list, and the row that is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from hermes_sessions.cli.session_lookup import preview_of_session
from hermes_sessions.storage.search.answer import Hit
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.text.query.filters import SearchConditions

# The sessions that a text finds, page by page: nobody loads what nobody scrolls to.


Record = Mapping[str, Any]


_PAGE = 50
#: Shorter beginnings of ids say nothing: all of them begin with a year.
_ID_AT_LEAST = 5


_BY_NAME = 20


class Row(NamedTuple):
    """One session of the list."""

    id: str
    name: str
    source: str
    last_active: float | None
    pinned: bool = False
    #: What was found in it, when a text was searched for.
    hit: Hit | None = None


def rows_for(db: SessionDB, text: str, source: str | None, hidden: Sequence[str]) -> Iterator[Row]:
    """Yield the sessions that *text* finds, best first, or all of them, newest activity first.

    Titles and ids that begin with the text come first, then what its words find. The last word may
    be unfinished. Sources in *hidden* are left out unless *source* asks for one.
    """
    wanted = text.strip()
    found = _found(db, wanted, source, hidden) if wanted else _latest(db, source, hidden)
    seen: set[str] = set()
    for row in found:
        # A session that was used meanwhile may come up on two pages.
        if row.id not in seen:
            seen.add(row.id)
            yield row


def _latest(db: SessionDB, source: str | None, hidden: Sequence[str]) -> Iterator[Row]:
    offset = 0
    while page := db.list_sessions_rich(
        source=source,
        exclude_sources=None if source else hidden,
        limit=_PAGE,
        offset=offset,
        compact_rows=True,
    ):
        yield from map(_row, page)
        offset += len(page)


def _found(db: SessionDB, text: str, source: str | None, hidden: Sequence[str]) -> Iterator[Row]:
    named = [session_id for _, session_id in db.find_session_titles(text, limit=_BY_NAME)]
    if len(text) >= _ID_AT_LEAST:
        named += db.find_session_ids(text, limit=_BY_NAME)
    for session_id in named:
        session = db.get_session(session_id)
        if session is not None and _is_shown(session["source"], source, hidden):
            yield _row({**session, "preview": preview_of_session(db, session_id)})
    conditions = SearchConditions(
        sources=(source,) if source else None, exclude_sources=() if source else tuple(hidden)
    )
    # A word that is still being typed is the beginning of one.
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


#: Returns the rows that a text finds; they are taken as they are needed.
Find = Callable[[str], Iterator[Row]]
#: So many rows beyond those that were looked at are kept ready.
_AHEAD: Final = 50


class Picker:
    """The state of the list; the terminal shows it and tells it which key was pressed."""

    def __init__(self, find: Find, *, page: int = 10) -> None:
        self._find = find
        #: How many rows a page has.
        self.page = page
        self.text = ""
        self.rows: list[Row] = []
        self.selected = 0
        #: Whether somebody left without choosing.
        self.left = False
        self._search()

    @property
    def chosen(self) -> Row | None:
        """The row under the cursor, None in an empty list."""
        return self.rows[self.selected] if self.rows else None

    @property
    def has_more(self) -> bool:
        """Whether the list may go on behind the rows taken so far."""
        return self._has_more

    def type(self, text: str) -> None:
        """Search for more; a ``q`` leaves while nothing was typed."""
        if text == "q" and not self.text:
            self.leave()
        elif text.isprintable():
            self._change(self.text + text)

    def erase(self) -> None:
        """Take the last character back."""
        self._change(self.text[:-1])

    def clear(self) -> None:
        """Take back all that was typed."""
        self._change("")

    def escape(self) -> None:
        """Clear the search; with nothing to clear, leave."""
        if self.text:
            self.clear()
        else:
            self.leave()

    def leave(self) -> None:
        """Choose nothing."""
        self.left = True

    def move(self, steps: int) -> None:
        """Go down, or up with a negative number; one step beyond an end leads to the other."""
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
        """Go to the first row."""
        self.selected = 0

    def last(self) -> None:
        """Go to the last of the rows taken so far."""
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
