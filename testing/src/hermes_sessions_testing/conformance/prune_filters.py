"""Filters of pruning and archiving, and empty sessions."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import branch, compress, ids, say, session


def ended(db: SessionDB, session_id: str, reason: str = "done", **options: Any) -> None:
    """Create a session with one question that has ended."""
    say(db, session_id, "question", **options)
    db.end_session(session_id, reason)


def some(db: SessionDB, clock: FrozenClock) -> float:
    """Create the sessions ``a`` and ``b``, which differ in everything; return a time between."""
    ended(
        db,
        "a",
        "cli_close",
        title="Fruit 50%",
        model="big-model",
        user_id="anna",
        chat_id="1",
        chat_type="dm",
        cwd="/w/p",
    )
    db.update_token_counts(
        "a", input_tokens=70, output_tokens=30, billing_provider="Acme", actual_cost_usd=2.0
    )
    between = clock.advance(10)
    clock.advance(10)
    ended(db, "b", title="Cars", model="small", user_id="bert", chat_id="2", chat_type="group")
    db.append_message("b", "assistant", "", tool_calls=[{"id": "1"}, {"id": "2"}])
    return between


class TestPruneFilters:
    """A conversation goes if all its threads match."""

    @pytest.mark.parametrize(
        ("filters", "wanted"),
        [
            ({"title_like": "fRUIT"}, "a"),
            ({"title_like": "50%"}, "a"),
            ({"title_like": "%"}, "a"),
            ({"title_like": ""}, "ab"),
            ({"model_like": "BIG"}, "a"),
            ({"end_reason": "cli_close"}, "a"),
            ({"user_id": "bert"}, "b"),
            ({"chat_id": "2"}, "b"),
            ({"chat_type": "dm"}, "a"),
            ({"provider": "aCME"}, "a"),
            ({"cwd_prefix": "/w/"}, "a"),
            ({"cwd_prefix": "/w/pp"}, ""),
            ({"min_messages": 2}, "b"),
            ({"max_messages": 1}, "a"),
            ({"min_tokens": 100}, "a"),
            ({"max_tokens": 99}, "b"),
            ({"min_cost": 2}, "a"),
            ({"max_cost": 0}, "b"),
            ({"min_tool_calls": 2}, "b"),
            ({"max_tool_calls": 1}, "a"),
            ({"archived": True}, ""),
            ({"archived": False}, "ab"),
            ({"archived": None}, "ab"),
            ({"title_like": "fruit", "user_id": "bert"}, ""),
        ],
    )
    def test_one_of_two(
        self, db: SessionDB, clock: FrozenClock, filters: dict[str, Any], wanted: str
    ) -> None:
        """Candidates and deleted sessions are the same."""
        some(db, clock)
        assert sorted(ids(db.list_prune_candidates(0, **filters))) == list(wanted)
        assert db.prune_sessions(0, **filters) == len(wanted)
        assert sorted(ids(db.search_sessions())) == sorted({"a", "b"} - set(wanted))

    def test_times(self, db: SessionDB, clock: FrozenClock) -> None:
        """A time of the start replaces the age; what was active since is kept."""
        between = some(db, clock)
        assert ids(db.list_prune_candidates(90, started_before=between)) == ["a"]
        assert ids(db.list_prune_candidates(None, started_after=between)) == ["b"]
        db.append_message("a", "user", "still here")
        assert db.list_prune_candidates(90, started_before=between) == []

    def test_a_branch_of_a_repository(self, db: SessionDB, clock: FrozenClock) -> None:
        """The branch of the directory is compared in part."""
        some(db, clock)
        assert db.list_prune_candidates(0, branch_like="main") == []

    def test_open_sessions_stay(self, db: SessionDB) -> None:
        """Whatever the filters say."""
        say(db, "open", "question", title="Fruit")
        assert db.list_prune_candidates(None, title_like="fruit") == []
        assert db.prune_sessions(None, title_like="fruit") == 0

    def test_a_conversation_is_one_unit(self, db: SessionDB, clock: FrozenClock) -> None:
        """A chain has the state of its tip and the sums of its parts; a branch must match, too."""
        say(db, "head", "question", "answer", title="Plan")
        compress(db, clock, "head", "tip")
        say(db, "tip", "more")
        db.create_session("sub", "subagent", parent_session_id="tip", edge_kind="subagent")
        for session_id in ("sub", "tip"):
            db.end_session(session_id, "cli_close")
        assert set(ids(db.list_prune_candidates(0, end_reason="cli_close"))) == {
            *("head", "tip", "sub"),
        }
        assert set(ids(db.list_prune_candidates(0, min_messages=3))) == {"head", "tip", "sub"}
        db.reopen_session("tip")
        branch(db, clock, "tip", "fork")
        db.end_session("fork", "other")
        assert db.list_prune_candidates(0, end_reason="branched") == []

    def test_unknown_filters(self, db: SessionDB) -> None:
        """A misspelt filter deletes nothing."""
        ended(db, "s")
        wrong: dict[str, Any] = {"titel": "x"}
        for verb in (db.prune_sessions, db.list_prune_candidates, db.archive_sessions):
            with pytest.raises(TypeError, match="titel"):
                verb(0, **wrong)
        for filters in ({"min_tokens": "many"}, {"title_like": 5}, {"started_before": True}):
            with pytest.raises(InvalidInput):
                db.prune_sessions(0, **filters)
        assert db.get_session("s")

    def test_neither_an_age_nor_a_filter(self, db: SessionDB) -> None:
        """Pruning everything must be said in so many words: an age of 0."""
        ended(db, "s")
        for filters in ({}, {"archived": None}):
            with pytest.raises(InvalidInput):
                db.prune_sessions(None, **filters)  # type: ignore[arg-type]
        assert db.get_session("s")


class TestArchiving:
    """Many sessions leave the lists at once."""

    def test_matching_sessions(self, db: SessionDB, clock: FrozenClock) -> None:
        """Those that ended and match, with all parts of their chain; nothing is deleted."""
        some(db, clock)
        say(db, "open", "question")
        assert db.archive_sessions(title_like="fruit") == 1
        assert sorted(ids(db.list_sessions_rich())) == ["b", "open"]
        assert db.archive_sessions(title_like="fruit") == 0
        assert db.archive_sessions() == 1
        assert ids(db.list_sessions_rich()) == ["open"]
        assert db.archive_sessions(archived=None) == 2
        assert db.session_count(include_archived=True) == 3

    def test_a_chain(self, db: SessionDB, clock: FrozenClock) -> None:
        """All of it or nothing."""
        say(db, "head", "question")
        compress(db, clock, "head", "tip")
        assert db.archive_sessions() == 0
        db.end_session("tip", "done")
        assert db.archive_sessions(source="telegram") == 0
        assert db.archive_sessions(source="cli") == 2
        assert session(db, "head")["archived"] == session(db, "tip")["archived"] == 1

    def test_an_age(self, db: SessionDB, clock: FrozenClock) -> None:
        """By the last activity."""
        ended(db, "old")
        clock.advance(3 * 86400)
        ended(db, "new")
        assert db.archive_sessions(2) == 1
        assert ids(db.list_sessions_rich()) == ["new"]


class TestEmptySessions:
    """Sessions in which nothing was said."""

    def test_one(self, db: SessionDB) -> None:
        """It goes unless it has a title, a message or a child."""
        for session_id in ("empty", "titled", "parent", "said", "hidden"):
            db.create_session(session_id, "cli")
        db.set_session_title("titled", "Plan")
        db.create_session("child", "cli", parent_session_id="parent")
        db.append_message("said", "user", "hello")
        hidden = db.append_message("hidden", "user", "hello")
        db.rewind_to_message("hidden", hidden)
        for session_id in ("titled", "parent", "said", "hidden", "missing", ""):
            assert db.delete_session_if_empty(session_id) is False
        assert db.delete_session_if_empty("empty") is True
        assert db.get_session("empty") is None
        assert db.session_count() == 5

    def test_all(self, db: SessionDB) -> None:
        """Those that ended, with or without a title; history is never deleted."""
        for session_id in ("open", "ended", "titled", "archived", "pinned", "held", "compacted"):
            db.create_session(session_id, "cli")
            if session_id != "open":
                db.end_session(session_id, "done")
        db.set_session_title("titled", "Plan")
        db.set_session_archived("archived")
        db.set_session_pinned("pinned")
        db.hold_session("held", "a reason")
        db.append_message("compacted", "user", "history")
        db.archive_and_compact("compacted", [])
        assert session(db, "compacted")["message_count"] == 0
        assert db.count_empty_sessions() == 2
        assert db.delete_empty_sessions() == 2
        assert db.count_empty_sessions() == db.delete_empty_sessions() == 0
        kept = ["archived", "compacted", "held", "open", "pinned"]
        assert sorted(ids(db.search_sessions())) == kept
