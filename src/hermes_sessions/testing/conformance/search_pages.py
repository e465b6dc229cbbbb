"""Pages of an answer: they join to the whole list, whatever is stored or deleted meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.clock import FrozenClock
from hermes_sessions.testing.conformance.helpers import bases_of, say

orders = pytest.mark.parametrize("sort", ["relevance", "newest", "oldest"])


def fill(db: SessionDB, count: int = 23) -> None:
    """Store messages about plums in three sessions; their times are not in the order of storing,
    and some are equal.
    """
    for session_id in ("a", "b", "c"):
        db.create_session(session_id, "cli")
    for number in range(count):
        db.append_message(
            "abc"[number % 3],
            "user",
            "plum " * (number % 4 + 1) + f"number {number}",
            timestamp=1_000.0 + (number * 7 % count) // 2,
        )


def pages(
    db: SessionDB,
    query: str,
    *,
    limit: int,
    between: Callable[[], Any] = lambda: None,
    **options: Any,
) -> list[int]:
    """Return the ids on all pages; *between* two pages something may happen to the store."""
    shown: list[int] = []
    cursor = None
    while True:
        answer = db.search(query, limit=limit, cursor=cursor, **options)
        assert len(answer.hits) <= limit
        shown += [hit.id for hit in answer.hits]
        if (cursor := answer.next_cursor) is None:
            return shown
        assert len(answer.hits) == limit
        between()


class TestSearchPages:
    """A cursor is a place in one list."""

    @orders
    def test_pages_join_to_the_whole(self, db: SessionDB, sort: str) -> None:
        """Whatever their size; the last one has no cursor."""
        fill(db)
        whole = [hit.id for hit in db.search("plum", sort=sort, limit=100).hits]
        assert len(set(whole)) == 23
        for limit in (1, 4, 22, 23, 24):
            assert pages(db, "plum", sort=sort, limit=limit) == whole
        assert db.search("plum", sort=sort, limit=23).next_cursor is None

    @orders
    def test_what_is_stored_meanwhile(self, db: SessionDB, sort: str) -> None:
        """It does not belong to the list, wherever it would stand in it."""
        fill(db)
        whole = [hit.id for hit in db.search("plum", sort=sort, limit=100).hits]

        def store() -> None:
            for moment in (1.0, 1_005.0, 9_999.0):
                db.append_message("b", "user", "plum " * 9, timestamp=moment)

        assert pages(db, "plum", sort=sort, limit=5, between=store) == whole

    @orders
    def test_what_is_deleted_meanwhile(self, db: SessionDB, sort: str) -> None:
        """The rest is shown once, in its order, also when the last hit shown is gone."""
        fill(db)
        whole = db.search("plum", sort=sort, limit=100).hits
        last = whole[4]
        kept = [h.id for i, h in enumerate(whole) if i < 5 or h.session_id != last.session_id]

        def delete() -> None:
            db.delete_session(last.session_id)

        shown = pages(db, "plum", sort=sort, limit=5, between=delete)
        assert len(set(shown)) == len(shown)
        if sort == "relevance":
            # Scores depend on what is there, so the order of the rest may be another one.
            assert set(shown) <= set(kept)
        else:
            assert shown == kept

    @pytest.mark.parametrize("limit", [4, 5, 7])
    def test_what_rises_meanwhile(self, db: SessionDB, limit: int) -> None:
        """Hits that a new title lifts push the others down; none of those is left out."""
        fill(db)
        others = {
            hit.id for hit in db.search("plum", limit=100).hits if hit.session_id in {"a", "c"}
        }
        answer = db.search("plum", limit=limit)
        shown = [hit.id for hit in answer.hits]
        db.set_session_title("b", "plum plum")
        while answer.next_cursor is not None:
            answer = db.search("plum", limit=limit, cursor=answer.next_cursor)
            shown += [hit.id for hit in answer.hits]
        assert others <= set(shown)

    def test_filters_alone(self, db: SessionDB) -> None:
        """They are paged, too."""
        fill(db)
        whole = [hit.id for hit in db.search("role:user", limit=100).hits]
        assert len(whole) == 23
        assert pages(db, "role:user", limit=6) == whole
        assert pages(db, "-plum", limit=6) == []

    def test_beyond_what_is_ranked(self, db: SessionDB) -> None:
        """What follows the ranked hits by time is shown once, and everything is shown."""
        stored = say(db, "s", *[f"plum {number}" for number in range(450)])
        shown = pages(db, "plum", limit=90)
        assert len(shown) == len(set(shown)) == 450
        assert set(shown) == set(stored)
        assert [row["id"] for row in db.search_messages("plum", limit=-1)] == shown

    @orders
    def test_relaxed_readings(self, db: SessionDB, sort: str) -> None:
        """What was found by another reading goes on in that reading, and in those after it."""
        say(db, "s", *[f"plum {number}" for number in range(12)], *["many plums here"] * 4)
        for query, count in {"zeppelin plum": 16, "plum of the zeppelins": 16, "lum": 16}.items():
            whole = [hit.id for hit in db.search(query, sort=sort, limit=100).hits]
            assert len(whole) == count
            assert pages(db, query, sort=sort, limit=5) == whole

    def test_ages_keep_their_meaning(self, db: SessionDB, clock: FrozenClock) -> None:
        """``after:1h`` means the hour before the first page, however long somebody reads."""
        db.create_session("s", "cli")
        for minute in range(10):
            db.append_message("s", "user", "plum", timestamp=clock() - minute * 60)

        def read() -> None:
            clock.advance(minutes=30)

        for sort in ("newest", "relevance"):
            query = "plum after:1h"
            assert len(pages(db, query, sort=sort, limit=3, between=read)) == 10
            clock.set(clock() - 90 * 60)

    def test_cursors_that_do_not_belong(self, db: SessionDB) -> None:
        """A cursor of another question, or of no search at all, is a ValueError."""
        fill(db)
        cursor = db.search("plum", limit=2).next_cursor
        assert cursor is not None
        others: list[tuple[str, dict[str, Any]]] = [
            ("plums", {}),
            ("plum", {"sort": "newest"}),
            ("plum", {"relax": False}),
        ]
        for query, options in others:
            with pytest.raises(InvalidInput) as raised:
                db.search(query, cursor=cursor, **options)
            assert "ValueError" in bases_of(raised.value)
        for text in ("", "?", "AAAA", cursor[:-2], cursor + "A", "é" * 9, "' OR 1=1 --", "\x00"):
            with pytest.raises(InvalidInput):
                db.search("plum", cursor=text)
        # Another number of hits is no other question.
        assert len(db.search("plum", limit=30, cursor=cursor).hits) == 21
