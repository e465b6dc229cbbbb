"""Filters of lists: directory, parts of an id or a title, number of messages."""

from __future__ import annotations

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import branch, compress, ids, say, session


class TestListFilters:
    """`list_sessions_rich` and `session_count` select the same rows."""

    @pytest.mark.parametrize(
        ("prefix", "shown"),
        [
            ("/w/p", ["below", "p"]),
            ("/w/p/", ["below", "p"]),
            ("/w/pp", ["pp"]),
            ("/w", ["below", "p", "percent", "pp"]),
            ("/", ["below", "p", "percent", "pp"]),
            ("/w/%", ["percent"]),
            ("C:\\w", ["windows"]),
            ("/other", []),
        ],
    )
    def test_directories(self, db: SessionDB, prefix: str, shown: list[str]) -> None:
        """A directory and those below it, on any system; nothing in it is a wildcard."""
        for session_id, cwd in (
            ("p", "/w/p"),
            ("below", "/w/p/src"),
            ("pp", "/w/pp"),
            ("percent", "/w/%"),
            ("windows", "C:\\w\\p"),
            ("nowhere", None),
        ):
            db.create_session(session_id, "cli", cwd=cwd)
        assert sorted(ids(db.list_sessions_rich(cwd_prefix=prefix))) == shown
        assert db.session_count(cwd_prefix=prefix) == len(shown)
        assert db.session_count(cwd_prefix=prefix, exclude_children=True) == len(shown)

    @pytest.mark.parametrize(
        ("query", "shown"),
        [
            ("an94", ["s-1"]),
            ("an-94 RIFLE", ["s-1"]),
            ("n-94", ["s-1"]),
            ("S-2", ["s-2"]),
            ("s2", []),
            ("100%", ["s-2"]),
            ("%", ["s-2"]),
            ("_", []),
            ("-", ["s-1", "s-2", "s-3"]),
            ("nothing", []),
        ],
    )
    def test_titles_and_ids(self, db: SessionDB, query: str, shown: list[str]) -> None:
        """A part of a title or an id; punctuation of titles may be left out."""
        for session_id, title in (("s-1", "AN-94 rifle"), ("s-2", "100% done"), ("s-3", None)):
            db.create_session(session_id, "cli")
            db.set_session_title(session_id, title)
        for by_activity in (True, False):
            rows = db.list_sessions_rich(search_query=query, order_by_last_active=by_activity)
            assert sorted(ids(rows)) == shown

    def test_any_session_of_a_chain(self, db: SessionDB, clock: FrozenClock) -> None:
        """A thread is found by the ids and titles of all its parts."""
        say(db, "head-1", "question", title="Old name")
        compress(db, clock, "head-1", "tip-1")
        db.set_session_title("tip-1", "New name")
        say(db, "other", "question")
        for query in ("head", "TIP-1"):
            assert ids(db.list_sessions_rich(id_query=query)) == ["tip-1"]
        for query in ("old name", "new NAME"):
            assert ids(db.list_sessions_rich(search_query=query)) == ["tip-1"]
        assert ids(db.list_sessions_rich(id_query="name")) == []

    def test_counts_of_rows(self, db: SessionDB, clock: FrozenClock) -> None:
        """With `exclude_children`, there are as many as rows of the list."""
        say(db, "head", "question", "answer")
        compress(db, clock, "head", "tip")
        db.create_session("sub", "subagent", parent_session_id="tip", edge_kind="subagent")
        say(db, "forked", "question")
        branch(db, clock, "forked", "fork", source="telegram")
        db.set_session_archived("forked")
        assert db.session_count(include_archived=True) == 5
        assert db.session_count() == 4
        assert db.session_count(archived_only=True) == 1
        assert db.session_count(archived_only=True, include_archived=True) == 1
        assert db.session_count(exclude_children=True) == len(db.list_sessions_rich()) == 2
        assert db.session_count(exclude_children=True, min_message_count=1) == 0
        assert db.session_count(exclude_children=True, exclude_sources=["telegram"]) == 1
        assert db.session_count("telegram", exclude_children=True) == 1

    def test_the_tip_tells_where_a_thread_works(self, db: SessionDB, clock: FrozenClock) -> None:
        """Directories of the row are those of the newest session."""
        db.create_session("head", "cli", cwd="/old")
        compress(db, clock, "head", "tip", cwd="/new")
        assert db.list_sessions_rich()[0]["cwd"] == "/new"
        assert ids(db.list_sessions_rich(cwd_prefix="/new")) == ["tip"]
        assert ids(db.list_sessions_rich(cwd_prefix="/old")) == []
        assert session(db, "head")["cwd"] == "/old"


class TestLists:
    """Lists by id and by cron job."""

    def test_sessions_by_id(self, db: SessionDB, clock: FrozenClock) -> None:
        """An equal id comes first, then those that begin with it, each by activity."""
        for session_id in ("abc", "ABC", "abcd", "xabc", "other"):
            clock.advance(1)
            say(db, session_id, "question")
        assert ids(db.search_sessions_by_id(" aBc ")) == ["ABC", "abc", "abcd", "xabc"]
        assert ids(db.search_sessions_by_id("abc", 2)) == ["ABC", "abc"]
        for query, limit in (("", 5), (None, 5), ("  ", 5), ("abc", 0), ("abc", -1), ("%", 5)):
            assert db.search_sessions_by_id(query, limit) == []

    def test_a_chain_by_id(self, db: SessionDB, clock: FrozenClock) -> None:
        """Any id of the thread finds its row; hidden sessions are not found."""
        say(db, "head", "question")
        compress(db, clock, "head", "middle")
        compress(db, clock, "middle", "tip")
        db.create_session("sub", "subagent", parent_session_id="tip", edge_kind="subagent")
        for query in ("head", "middle", "tip"):
            [row] = db.search_sessions_by_id(query)
            assert (row["id"], row["_lineage_root_id"]) == ("tip", "head")
        assert db.search_sessions_by_id("sub") == []
        db.set_session_archived("tip")
        assert ids(db.search_sessions_by_id("head")) == ["tip"]
        assert db.search_sessions_by_id("head", include_archived=False) == []

    def test_runs_of_a_cron_job(self, db: SessionDB, clock: FrozenClock) -> None:
        """By the beginning of the id, the newest start first."""
        for session_id in ("cron_j1_1", "cron_j1_2", "cron_j11_1", "cron_j1x_1", "xcron_j1_1"):
            say(db, session_id, "question", source="cron")
            clock.advance(1)
        say(db, "cron_j1_3", "question", source="cli")
        db.set_session_archived("cron_j1_1")
        rows = db.list_cron_job_runs("j1")
        assert ids(rows) == ["cron_j1_2", "cron_j1_1"]
        assert rows[0]["preview"] == "question"
        assert ids(db.list_cron_job_runs("j1", limit=1, offset=1)) == ["cron_j1_1"]
        assert db.list_cron_job_runs("j") == db.list_cron_job_runs("") == []
