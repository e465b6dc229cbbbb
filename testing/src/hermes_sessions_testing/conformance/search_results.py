"""Search results: order, snippets, pages, and the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import bases_of, found, say

# Pages: together they are the whole list, whatever is stored or deleted meanwhile.


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
    """A cursor is a position in one result list."""

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
        """A message stored meanwhile is not part of the list, wherever it would rank."""
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
        """Pages continue in the relaxation step of the first page and those after it."""
        say(db, "s", *[f"plum {number}" for number in range(12)], *["many plums here"] * 4)
        for query, count in {"zeppelin plum": 16, "plum of the zeppelins": 16, "lum": 16}.items():
            whole = [hit.id for hit in db.search(query, sort=sort, limit=100).hits]
            assert len(whole) == count
            assert pages(db, query, sort=sort, limit=5) == whole

    def test_ages_keep_their_meaning(self, db: SessionDB, clock: FrozenClock) -> None:
        """``after:1h`` is relative to the first page, however late the next one is read."""
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
        """A cursor of another query, or an invalid one, is a ValueError."""
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
        # Another limit is still the same query.
        assert len(db.search("plum", limit=30, cursor=cursor).hits) == 21


ORDERS = ("relevance", "newest", "oldest")


def at(db: SessionDB, session_id: str, moment: float, text: str, role: str = "user") -> int:
    """Append a message of this moment; return its id."""
    return db.append_message(session_id, role, text, timestamp=moment)


class TestSearchAnswers:
    """A query has the same results on every database, with a report."""

    # ── order ─────────────────────────────────────────────────────────────────────────────────

    def test_by_time(self, db: SessionDB) -> None:
        """By the time of the message, not of its storing; ties by session and place in it."""
        for session_id in ("b", "a"):
            db.create_session(session_id, "cli")
        at(db, "b", 300.0, "pear b1")
        at(db, "a", 100.0, "pear a1")
        at(db, "a", 300.0, "pear a2")
        at(db, "a", 300.0, "pear a3")
        at(db, "b", 200.0, "pear b2")
        in_time = ["pear a1", "pear b2", "pear a2", "pear a3", "pear b1"]
        assert found(db, "pear", sort="oldest") == in_time
        assert found(db, "pear", sort="newest") == in_time[::-1]
        rows = db.search_messages("pear", sort="newest", limit=2)
        assert [row["ordinal"] for row in rows] == [1, 3]

    def test_what_must_be_absent_alone(self, db: SessionDB) -> None:
        """Without terms to rank by, the newest come first."""
        db.create_session("s", "cli")
        for moment, text in ((100.0, "old"), (300.0, "new"), (200.0, "middle"), (250.0, "pear")):
            at(db, "s", moment, text)
        assert found(db, "-pear") == ["new", "middle", "old"]
        assert found(db, "-pear", sort="oldest") == ["old", "middle", "new"]
        assert all(hit.score is None for hit in db.search("-pear").hits)

    def test_by_relevance(self, db: SessionDB) -> None:
        """Words that stand together and are rare count more than age; machine work counts less."""
        db.create_session("s", "cli")
        at(db, "s", 100.0, "the red apple tree")
        at(db, "s", 200.0, "red paint, and much later in this text an apple")
        at(db, "s", 300.0, "apple juice")
        assert found(db, "red apple")[0] == "the red apple tree"
        assert found(db, "apple OR juice")[0] == "apple juice"
        scores = [hit.score for hit in db.search("red OR apple").hits]
        assert all(isinstance(score, float) for score in scores)
        assert scores == sorted(scores, key=lambda score: score or 0.0, reverse=True)
        say(db, "a job", "quince report", source="cron", started_at=100.0)
        say(db, "chat", "quince report", started_at=100.0)
        sources = [hit.source for hit in db.search("quince").hits]
        assert sources == ["cli", "cron"]

    def test_relevance_does_not_depend_on_when_the_index_was_made(self, db: SessionDB) -> None:
        """A rebuilt index gives the same hits in the same order with the same scores."""
        for number in range(40):
            say(db, f"s{number}", "lime " * (number % 7 + 1) + "kiwi " * (number % 3))
        before = [(hit.id, hit.score) for hit in db.search("lime OR kiwi", limit=40).hits]
        db.optimize_search(rebuild=True)
        assert [(hit.id, hit.score) for hit in db.search("lime OR kiwi", limit=40).hits] == before
        assert len(before) == 40

    def test_unknown_orders_and_limits(self, db: SessionDB) -> None:
        """They are errors that callers of the documented API can catch."""
        say(db, "s", "pear")
        for ask in (db.search, db.search_messages):
            with pytest.raises(InvalidInput):
                ask("pear", sort="best")
        for limit in (0, -1):
            with pytest.raises(InvalidInput):
                db.search("pear", limit=limit)

    # ── titles ────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("sort", ORDERS)
    def test_titles_find_their_sessions(self, db: SessionDB, sort: str) -> None:
        """In every order: the first message stands for a session that only its title finds."""
        say(db, "titled", "hello", "there", title="Kettle plans", started_at=100.0)
        say(db, "said", "kettle talk", title="Pots", started_at=200.0)
        say(db, "both", "kettle again", title="A kettle", started_at=300.0)
        answer = db.search("kettle", sort=sort, relax=False)
        assert {hit.session_id: (hit.matched, hit.snippet) for hit in answer.hits} == {
            "titled": ("title", ">>>Kettle<<< plans"),
            "said": ("message", ">>>kettle<<< talk"),
            "both": ("message", ">>>kettle<<< again"),
        }
        assert (len(answer.hits), answer.report.total) == (3, 3)
        assert [hit.ordinal for hit in answer.hits if hit.matched == "title"] == [1]
        assert db.search("plans", sort=sort).report.step == "as asked"
        assert db.search("kettle", sort=sort, limit=1).report.total == 3

    def test_titles_by_time_stand_at_the_time_of_their_message(self, db: SessionDB) -> None:
        """Between the others, and once over all pages."""
        titles = {100.0: None, 200.0: "Kettle one", 300.0: None, 400.0: "Kettle two", 500.0: None}
        for moment, title in titles.items():
            session_id = f"s{moment:.0f}"
            db.create_session(session_id, "cli")
            db.set_session_title(session_id, title)
            at(db, session_id, moment, "nothing" if title else "a kettle")
        for sort in ("oldest", "newest"):
            pages: list[Any] = []
            cursor = None
            while True:
                answer = db.search("kettle", sort=sort, limit=2, cursor=cursor)
                assert answer.report.total == 5
                pages += [hit.timestamp for hit in answer.hits]
                if (cursor := answer.next_cursor) is None:
                    break
            assert pages == sorted(titles, reverse=sort == "newest")

    @pytest.mark.parametrize("sort", ORDERS)
    def test_titles_keep_to_filters_and_exclusions(self, db: SessionDB, sort: str) -> None:
        """What must be absent is absent from the message that is shown, too."""
        say(db, "s", "hello teapot", "answer", title="Kettle", source="telegram")
        say(db, "gone", "hello", title="Kettle gone")
        db.trash_sessions(["gone"])

        def ordinals(query: str) -> list[int]:
            return [hit.ordinal for hit in db.search(query, sort=sort, relax=False).hits]

        assert ordinals("kettle") == [1]
        assert ordinals("kettle -teapot") == []
        assert ordinals("kettle source:cli") == []
        assert ordinals("kettle role:assistant") == [2]
        assert ordinals("-kettle source:telegram") == [2, 1][:: -1 if sort == "oldest" else 1]

    def test_titles_change(self, db: SessionDB) -> None:
        """The present title counts, at once."""
        say(db, "s", "hello", title="Kettle")
        assert found(db, "kettle") == ["Kettle"]
        db.set_session_title("s", "Samovar")
        assert (found(db, "kettle"), found(db, "samovar")) == ([], ["Samovar"])
        db.set_session_title("s", None)
        assert found(db, "samovar") == []

    # ── other readings ────────────────────────────────────────────────────────────────────────

    def test_steps(self, db: SessionDB) -> None:
        """A query without exact matches is relaxed, and the result reports how."""
        say(db, "s", "we decided to migrate the database", "unrelated words about gardens")
        expected = {
            "migrate database": "as asked",
            "the database that we migrate": "without common words",
            "deciding migrations": "other forms of the words",
            "database zeppelin": "any of the words",
            "igrat": "inside words",
        }
        assert {query: db.search(query).report.step for query in expected} == expected
        for query in expected:
            hits = db.search(query).hits
            assert [hit.ordinal for hit in hits] == [1], query
            assert ">>>" in hits[0].snippet, query
            assert [row["ordinal"] for row in db.search_messages(query)] == [1], query
        for query in [query for query, step in expected.items() if step != "as asked"]:
            answer = db.search(query, relax=False)
            assert (answer.hits, answer.report.total) == ([], 0), query

    def test_old_matches_with_more_words(self, db: SessionDB) -> None:
        """An old message with two of the words ranks before hundreds of new ones with one."""
        db.create_session("old", "cli")
        db.append_message("old", "user", "the zeppelin needs a kettle", timestamp=1.0)
        db.create_session("new", "cli")
        db.append_messages(
            "new",
            [
                {"role": "user", "content": f"{word} number {n}", "timestamp": 2.0 + n}
                for n in range(300)
                for word in ("zeppelin", "kettle", "balloon")
            ],
        )
        answer = db.search("balloon zeppelin or my kettle", limit=5)
        assert answer.report.step == "any of the words"
        assert answer.hits[0].session_id == "old"

    def test_plain_language_fills_a_page(self, db: SessionDB) -> None:
        """A sentence found as asked also finds messages with some of its words, after it."""
        db.create_session("s", "cli")
        say(db, "s", "the kettle stands on the stove", "my kettle", "a stove")
        answer = db.search("kettle stands on the stove")
        texts = [hit.snippet_text for hit in answer.hits]
        assert (texts[0], len(texts)) == ("the kettle stands on the stove", 3)
        assert answer.report.step == "as asked"
        note = "Found 1 as asked, the others by any of the words."
        assert answer.report.notes == [note]
        assert len(db.search("kettle stove").hits) == 1

    def test_what_every_step_keeps(self, db: SessionDB) -> None:
        """Exclusions, filters and quotes hold in every relaxation step."""
        say(db, "s", "we decided to migrate the database", "database of birds")
        for query in (
            "database zeppelin -birds -migrate",
            "database zeppelin source:nowhere",
            '"decided database"',
            '"database migrate" NOT zeppelin',
        ):
            answer = db.search(query)
            assert answer.hits == [], query
            assert db.search_messages(query) == [], query

    # ── account ───────────────────────────────────────────────────────────────────────────────

    def test_the_account_of_a_plain_answer(self, db: SessionDB) -> None:
        """The total, the relaxation step, and that the result is complete."""
        say(db, "s", *["fig"] * 30)
        # A search does not wait for other indexers, and reports what is not indexed yet.
        db.optimize_search()
        answer = db.search("fig", limit=5)
        account = answer.report
        assert len(answer.hits) == 5
        assert account.query == "fig"
        assert (account.step, account.total, account.total_is_exact) == ("as asked", 30, True)
        assert (account.complete, account.not_indexed, account.ranked) == (True, 0, 30)
        assert (account.repairs, account.notes, account.removed) == ([], [], {})
        assert account.elapsed_ms >= 0
        nothing = db.search("zeppelin").report
        assert (nothing.total, nothing.total_is_exact, nothing.complete) == (0, True, True)

    def test_counting_stops(self, db: SessionDB) -> None:
        """At 1,000, and the report says that there are more."""
        say(db, "s", *["fig"] * 1_005)
        account = db.search("fig").report
        assert (account.total, account.total_is_exact) == (1_000, False)
        assert (account.ranked, account.complete) == (200, True)
        account = db.search("fig role:system").report
        assert (account.total, account.removed) == (0, {"roles": 1_000})
        assert len(db.search_messages("fig", limit=-1)) == 1_005

    def test_a_query_that_is_too_long(self, db: SessionDB) -> None:
        """Only its beginning is searched, and the report says so."""
        say(db, "s", "fig")
        answer = db.search("fig " * 3_000)
        assert [hit.snippet for hit in answer.hits] == [">>>fig<<<"]
        assert any("characters were read" in repair for repair in answer.report.repairs)

    # ── snippets ──────────────────────────────────────────────────────────────────────────────

    def test_long_texts_are_cut_around_the_matches(self, db: SessionDB) -> None:
        """Dots stand where text was left out; blanks are folded."""
        say(db, "s", "word " * 400 + "the needle\n\n  lies here " + "word " * 400)
        (hit,) = db.search("needle").hits
        assert hit.snippet.startswith("...")
        assert hit.snippet.endswith("...")
        assert "the >>>needle<<< lies here" in hit.snippet
        assert len(hit.snippet) < 250

    def test_matches_also_come_as_spans(self, db: SessionDB) -> None:
        """Offsets into the snippet without markers, whatever markers the text contains."""
        say(db, "s", "word " * 400 + ">>> fig()\n\n  fig<<< and plum " + "word " * 400)
        (hit,) = db.search("fig plum").hits
        assert ">>> fig() fig<<< and plum" in hit.snippet_text
        assert hit.snippet_text.startswith("...")
        matches = [hit.snippet_text[start:end] for start, end in hit.spans]
        assert matches == ["fig", "fig", "plum"]
        (row,) = db.search_messages("fig plum")
        assert (row["snippet_text"], row["spans"]) == (hit.snippet_text, hit.spans)
        say(db, "t", "quiet", title="Figs of note")
        (hit,) = db.search('"figs of note"').hits
        assert (hit.matched, hit.snippet_text, hit.spans) == ("title", "Figs of note", [(0, 12)])

    def test_parts_of_words_are_marked(self, db: SessionDB) -> None:
        """Also of names in camelCase, of accented words and of emoji."""
        say(db, "s", "parseManifest()", "Grüße 👍🏽 aus Köln")
        expected = {
            "manifest": "parse>>>Manifest<<<()",
            "koln": "Grüße 👍🏽 aus >>>Köln<<<",
            "👍": "Grüße >>>👍🏽<<< aus Köln",
            "*rüß*": "G>>>rüß<<<e 👍🏽 aus Köln",
        }
        for query, snippet in expected.items():
            assert [hit.snippet for hit in db.search(query).hits] == [snippet]

    def test_the_matching_text_is_shown(self, db: SessionDB) -> None:
        """If the content does not match, the name or the call that does."""
        db.create_session("s", "cli")
        call = {"id": "c", "function": {"name": "terminal", "arguments": '{"command": "ls /opt"}'}}
        db.append_message("s", "assistant", "let me look", tool_calls=[call])
        assert found(db, "opt") == ["command ls /opt"]
        assert found(db, "look opt") == ["let me look"]
        assert found(db, "role:assistant") == ["let me look"]
