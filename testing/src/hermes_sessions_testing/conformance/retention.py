"""Retention: limits by class, plans, approval, and exceptions."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, RetentionNotApproved
from hermes_sessions.model.retention import ClassLimits, RetentionPolicies
from hermes_sessions.storage.care.retention.plan import RetentionPlan
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import (
    branch,
    compress,
    exchange,
    ids,
    say,
    session,
)

# Pruning: old conversations are deleted whole or not at all.


def left(db: SessionDB) -> set[str]:
    """Return the ids of all sessions that are still there."""
    return {row["id"] for row in db.search_sessions(limit=-1)}


class TestPruning:
    """Conversations that ended and were last active long ago are deleted."""

    def test_old_conversations_that_ended(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 74: old ended ones are deleted; old open ones and young ones stay."""
        for name in ("old ended", "old open"):
            db.create_session(name, "cli")
            exchange(db, name, "hi")
        db.end_session("old ended", "done")
        clock.advance(days=50)
        db.create_session("young ended", "cli")
        db.end_session("young ended", "done")
        clock.advance(days=41)
        assert ids(db.list_prune_candidates()) == ["old ended"]
        assert db.prune_sessions(older_than_days=90) == 1
        assert left(db) == {"old open", "young ended"}
        assert db.get_messages("old ended") == []
        assert db.message_count() == 2

    def test_activity_counts_not_the_start(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 74: a session that was used lately is not old."""
        db.create_session("s", "cli")
        clock.advance(days=100)
        exchange(db, "s", "still here")
        db.end_session("s", "done")
        assert db.prune_sessions() == 0
        clock.advance(days=91)
        assert db.prune_sessions() == 1

    def test_a_conversation_is_one_unit(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 74: an open or young member keeps the whole lineage."""
        db.create_session("a", "cli")
        compress(db, clock, "a", "a2")
        db.create_session("b", "cli")
        compress(db, clock, "b", "b2")
        db.end_session("b2", "done")
        db.create_session("c", "cli")
        branch(db, clock, "c", "c2")
        db.end_session("c2", "done")
        clock.advance(days=100)
        db.append_message("c2", "user", "hello again")
        assert set(ids(db.list_prune_candidates())) == {"b", "b2"}
        assert db.prune_sessions() == 2
        assert left(db) == {"a", "a2", "c", "c2"}
        assert session(db, "a2")["parent_session_id"] == "a"
        db.end_session("a2", "done")
        clock.advance(days=100)
        assert db.prune_sessions() == 4
        assert left(db) == set()

    def test_only_one_source(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 74: conversations of other sources stay."""
        for source in ("cli", "telegram"):
            db.create_session(source, source)
            db.end_session(source, "done")
        clock.advance(days=100)
        assert ids(db.list_prune_candidates(source="cli")) == ["cli"]
        assert db.prune_sessions(source="cli") == 1
        assert left(db) == {"telegram"}

    def test_every_conversation_that_ended(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 74: 0 days means all, also when a clock was set back."""
        for name in ("ended", "open"):
            db.create_session(name, "cli")
            exchange(db, name, "hi")
        db.end_session("ended", "done")
        clock.advance(-60)
        assert db.prune_sessions(older_than_days=0) == 1
        assert left(db) == {"open"}

    def test_pruning_again(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 75: a second run deletes nothing."""
        db.create_session("s", "cli")
        db.end_session("s", "done")
        clock.advance(days=100)
        assert db.prune_sessions() == 1
        assert db.prune_sessions() == 0
        assert db.list_prune_candidates() == []

    def test_candidates_are_what_goes(self, db: SessionDB, clock: FrozenClock) -> None:
        """The dry run lists them, oldest activity first, and changes nothing."""
        for name in ("b", "a", "c"):
            clock.advance(60)
            db.create_session(name, "cli")
            exchange(db, name, f"question of {name}")
            db.end_session(name, "done")
        clock.advance(days=100)
        rows = db.list_prune_candidates()
        assert ids(rows) == ["b", "a", "c"]
        assert [row["preview"] for row in rows] == [f"question of {name}" for name in "bac"]
        assert left(db) == {"a", "b", "c"}

    def test_progress(self, db: SessionDB, clock: FrozenClock) -> None:
        """The callback gets the number of deleted sessions after each step."""
        for number in range(30):
            db.create_session(str(number), "cli")
            exchange(db, str(number), "hi")
            db.end_session(str(number), "done")
        clock.advance(days=100)
        steps: list[int] = []
        assert db.prune_sessions(on_progress=steps.append) == 30
        assert sum(steps) == 30

    def test_many_conversations(self, db: SessionDB, clock: FrozenClock) -> None:
        """Large ones, small ones and ones that stay."""
        for number in range(40):
            name = f"s{number}"
            db.create_session(name, "cli")
            size = 1_100 if number == 20 else 60
            db.append_messages(name, [{"role": "user", "content": "x"}] * size)
            if number % 4:
                db.end_session(name, "done")
        clock.advance(days=100)
        gone = sum(1 for number in range(40) if number % 4)
        assert db.prune_sessions() == gone
        assert left(db) == {f"s{number}" for number in range(0, 40, 4)}
        assert db.message_count() == sum(db.message_count(name) for name in left(db))

    @pytest.mark.parametrize("days", [-1, "90", None, float("nan")])
    def test_an_age_is_a_number_of_days(self, db: SessionDB, days: Any) -> None:
        """Anything else is refused, and deletes nothing."""
        db.create_session("s", "cli")
        db.end_session("s", "done")
        with pytest.raises(InvalidInput):
            db.prune_sessions(older_than_days=days)
        assert left(db) == {"s"}

    def test_ghosts(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 76: only ended, untitled, empty sessions of the tui, older than a day."""
        for name in ("ghost", "titled", "open", "used", "from the cli"):
            db.create_session(name, "cli" if name == "from the cli" else "tui")
            if name != "open":
                db.end_session(name, "done")
        db.set_session_title("titled", "Kept")
        exchange(db, "used", "hi")
        clock.advance(days=0.5)
        assert db.prune_empty_ghost_sessions() == 0
        db.create_session("young", "tui")
        db.end_session("young", "done")
        clock.advance(days=0.6)
        assert db.prune_empty_ghost_sessions() == 1
        assert left(db) == {"titled", "open", "used", "from the cli", "young"}
        assert db.prune_empty_ghost_sessions() == 0

    def test_a_ghost_with_children(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 76: goes like any other; what continues it stays."""
        db.create_session("ghost", "tui")
        compress(db, clock, "ghost", "child", source="tui")
        exchange(db, "child", "hi")
        clock.advance(days=2)
        assert db.prune_empty_ghost_sessions() == 1
        assert left(db) == {"child"}
        assert session(db, "child")["parent_session_id"] is None
        assert db.message_count("child") == 2


def ended(db: SessionDB, clock: FrozenClock, name: str, **options: Any) -> None:
    """Make an ended session with one message, a day after the one before."""
    clock.advance(days=1)
    say(db, name, f"about {name}", **options)
    db.end_session(name, "done")


def going(plan: RetentionPlan) -> list[str]:
    """Return the conversations that go, oldest activity first."""
    return [removal.conversation.id for removal in plan.removals]


def approved(db: SessionDB, **limits: Any) -> RetentionPolicies:
    """Approve limits."""
    policies = RetentionPolicies(**limits)
    db.approve_retention(db.plan_retention(policies))
    return policies


class TestRetention:
    """Nothing is removed without approval, and nothing is deleted permanently at once."""

    def test_limits_by_class(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 108: by age, number and size, each class for itself."""
        for name, source in (("h1", "cli"), ("c1", "cron"), ("a1", "api"), ("h2", "telegram")):
            ended(db, clock, name, source=source)
        ended(db, clock, "c2", source="cron")
        clock.advance(days=10)
        assert going(db.plan_retention(RetentionPolicies())) == []
        plan = db.plan_retention(RetentionPolicies(cron=ClassLimits(max_age_days=12)))
        assert going(plan) == ["c1"]
        assert plan.removals[0].rule == "age"
        assert plan.counts == {"human": 2, "cron": 2, "subagent": 0, "api": 1}
        plan = db.plan_retention(
            RetentionPolicies(human=ClassLimits(max_count=1), api=ClassLimits(max_count=0))
        )
        assert going(plan) == ["h1", "a1"]
        assert {removal.rule for removal in plan.removals} == {"count"}
        plan = db.plan_retention(RetentionPolicies(human=ClassLimits(max_bytes=1)))
        assert going(plan) == ["h1"]
        assert plan.removals[0].rule == "bytes"
        assert session(db, "h1")["ended_at"] is not None

    def test_nothing_goes_without_consent(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 109: an approval is valid for exactly these limits."""
        for name in ("a", "b", "c"):
            ended(db, clock, name)
        policies = RetentionPolicies(human=ClassLimits(max_count=2))
        assert not db.plan_retention(policies).is_approved
        with pytest.raises(RetentionNotApproved, match="have not been approved yet"):
            db.run_retention(policies)
        approved(db, human=ClassLimits(max_count=2))
        assert db.plan_retention(policies).is_approved
        with pytest.raises(RetentionNotApproved, match="changed after"):
            db.run_retention(RetentionPolicies(human=ClassLimits(max_count=1)))
        assert db.session_count() == 3
        assert db.run_retention(policies).moved == ("a",)
        assert db.session_count() == 2

    def test_what_limits_nothing_needs_no_consent(self, db: SessionDB) -> None:
        """Behaviour 109: without limits there is nothing to approve, and nothing happens."""
        with pytest.raises(InvalidInput, match="no limits"):
            db.approve_retention(db.plan_retention())
        assert db.run_retention().moved == ()

    def test_what_goes_is_in_the_trash(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 108: it can be restored."""
        ended(db, clock, "old")
        clock.advance(days=100)
        policies = approved(db, human=ClassLimits(max_age_days=90))
        result = db.run_retention(policies)
        assert (result.moved, result.messages) == (("old",), 1)
        assert ids(db.list_trash()) == ["old"]
        assert db.restore_sessions(["old"]) == ["old"]

    def test_pins_and_holds_win(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 110: over every limit; they still count towards it."""
        for name in ("pinned", "on-hold", "leased", "a", "b"):
            ended(db, clock, name)
        db.set_session_pinned("pinned")
        db.hold_session("on-hold", "a dispute")
        clock.advance(days=100)
        db.take_lease("leased", "somebody", ttl=3600)
        policies = approved(db, human=ClassLimits(max_age_days=1, max_count=0, max_bytes=0))
        plan = db.plan_retention(policies)
        assert going(plan) == ["a", "b"]
        assert plan.kept == {"in use": 1, "on hold": 1, "pinned": 1}
        assert db.run_retention(policies).moved == ("a", "b")
        assert {row["id"] for row in db.list_sessions_rich()} == {"pinned", "on-hold", "leased"}

    def test_whole_lineages(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 110: all members are removed together, or none."""
        say(db, "root", "x", source="cron")
        compress(db, clock, "root", "tip")
        branch(db, clock, "tip", "leaf")
        db.create_session("sub", "subagent", parent_session_id="leaf", edge_kind="subagent")
        for name in ("root", "tip", "leaf", "sub"):
            db.end_session(name, "done")
        clock.advance(days=40)
        limits = {
            "cron": ClassLimits(max_age_days=30),
            "subagent": ClassLimits(max_age_days=1),
        }
        policies = approved(db, **limits)
        db.set_session_pinned("leaf")
        assert going(db.plan_retention(policies)) == []
        db.set_session_pinned("leaf", pinned=False)
        assert set(db.run_retention(policies).moved) == {"root", "tip", "leaf", "sub"}
        assert db.session_count() == 0

    def test_what_was_never_ended(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 111: it is ended after a time without activity, and then subject to limits."""
        say(db, "forgotten", "x")
        clock.advance(days=5)
        say(db, "open", "x")
        clock.advance(days=26)
        policies = approved(db, human=ClassLimits(max_age_days=3), close_after_days=30)
        plan = db.plan_retention(policies)
        assert plan.closings == ("forgotten",)
        assert plan.kept == {"open": 1}
        assert session(db, "forgotten")["ended_at"] is None
        result = db.run_retention(policies)
        assert result.closed == result.moved == ("forgotten",)
        assert session(db, "open")["ended_at"] is None
        db.restore_sessions(["forgotten"])
        assert session(db, "forgotten")["end_reason"] == "inactive"

    def test_a_class_without_limits_is_left_alone(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 111: nothing of it is ended either."""
        say(db, "forgotten", "x")
        clock.advance(days=100)
        db.run_retention(approved(db, cron=ClassLimits(max_count=1)))
        assert session(db, "forgotten")["ended_at"] is None

    def test_somebody_comes_back_meanwhile(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 110: what was written to after the plan was made stays."""
        for name in ("a", "b"):
            ended(db, clock, name)
        clock.advance(days=100)
        policies = approved(db, human=ClassLimits(max_age_days=90))
        assert going(db.plan_retention(policies)) == ["a", "b"]
        say(db, "a", "I am back")
        assert db.run_retention(policies).moved == ("b",)
        assert session(db, "a")["message_count"] == 2
