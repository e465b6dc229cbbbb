"""The sessions that a text finds, page by page: nobody loads what nobody scrolls to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hermes_sessions.cli.preview import preview_of_session
from hermes_sessions.storage.search.answer import Hit
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.text.query.filters import Conditions

Record = dict[str, Any]

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
    conditions = Conditions(
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
