"""Archive, pins and holds."""

from __future__ import annotations

import pytest

from hermes_sessions.errors import InvalidInput, OnHold
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import (
    branch,
    compress,
    contents,
    exchange,
    ids,
    say,
    session,
)

# Holds: a session on hold cannot be deleted.


class TestHolds:
    """A hold protects a conversation until it is lifted."""

    def test_a_hold_and_its_end(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 107: it has a reason and a time, and can be lifted."""
        db.create_session("s", "cli")
        held_at = clock.advance(1)
        assert db.hold_session("s", " a dispute ") is True
        clock.advance(1)
        assert db.hold_session("s", "another dispute") is True
        assert db.list_holds() == [
            {
                "session_id": "s",
                "reason": "another dispute",
                "held_at": held_at,
                "title": None,
                "conversation_id": "s",
            }
        ]
        assert db.lift_hold("s") is True
        assert db.lift_hold("s") is False
        assert db.list_holds() == []
        assert db.delete_session("s") is True

    def test_what_cannot_be_held(self, db: SessionDB) -> None:
        """Behaviour 107: a session that does not exist, and one without a reason."""
        assert db.hold_session("missing", "why") is False
        db.create_session("s", "cli")
        for reason in ("", "  ", "x" * 1001):
            with pytest.raises(InvalidInput):
                db.hold_session("s", reason)
        assert db.list_holds() == []

    def test_nobody_deletes_it(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 107: neither by name nor by age, nor any session of its conversation."""
        say(db, "root", "x")
        branch(db, clock, "root", "leaf")
        for name in ("root", "leaf"):
            db.end_session(name, "done")
        db.hold_session("leaf", "a dispute")
        clock.advance(days=100)
        for name in ("root", "leaf"):
            with pytest.raises(OnHold, match="a dispute"):
                db.delete_session(name)
            with pytest.raises(OnHold, match="a dispute"):
                db.trash_sessions([name])
        assert db.list_prune_candidates() == []
        assert db.prune_sessions() == 0
        assert session(db, "root")["message_count"] == 1
        # By any of its sessions.
        assert db.lift_hold("root") is True
        assert set(ids(db.list_prune_candidates())) == {"root", "leaf"}

    def test_what_is_in_the_trash_stays_there(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 107: a part that was deleted before the hold is not deleted for good."""
        say(db, "root", "x")
        branch(db, clock, "root", "leaf")
        db.trash_sessions(["leaf"])
        db.hold_session("root", "a dispute")
        clock.advance(days=100)
        assert db.purge_trash() == 0
        assert db.restore_sessions(["leaf"]) == ["leaf"]


# Pins: a pinned session is never pruned.


class TestPins:
    """A pinned thread stays, with everything that belongs to its conversation."""

    def test_a_pin_and_its_end(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 104: a pin has a time, appears in lists, and can be removed."""
        for name in ("a", "b"):
            clock.advance(1)
            db.create_session(name, "cli")
        assert session(db, "a")["pinned_at"] is None
        pinned_at = clock.advance(1)
        assert db.set_session_pinned("a") is True
        assert session(db, "a")["pinned_at"] == pinned_at
        rows = {row["id"]: row["pinned_at"] for row in db.list_sessions_rich()}
        assert rows == {"a": pinned_at, "b": None}
        assert ids(db.list_sessions_rich(pinned_only=True)) == ["a"]
        assert db.set_session_pinned("a", pinned=False) is True
        assert db.list_sessions_rich(pinned_only=True) == []
        assert session(db, "a")["pinned_at"] is None

    def test_an_unknown_session(self, db: SessionDB) -> None:
        """Behaviour 104: unknown and trashed sessions cannot be pinned."""
        assert db.set_session_pinned("missing") is False
        db.create_session("s", "cli")
        db.trash_sessions(["s"])
        assert db.set_session_pinned("s") is False

    def test_a_chain_is_pinned_as_a_whole(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 104: any member pins the chain; later continuations are pinned, too."""
        db.create_session("root", "cli")
        compress(db, clock, "root", "middle")
        db.set_session_pinned("root")
        assert session(db, "middle")["pinned_at"] == session(db, "root")["pinned_at"] is not None
        compress(db, clock, "middle", "tip")
        assert session(db, "tip")["pinned_at"] is not None
        for by_activity in (True, False):
            rows = db.list_sessions_rich(pinned_only=True, order_by_last_active=by_activity)
            assert ids(rows) == ["tip"]
        branch(db, clock, "tip", "other")
        assert session(db, "other")["pinned_at"] is None

    def test_pins_are_never_pruned(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 104: a pin protects every session of the conversation from pruning."""
        for name in ("pinned", "root", "gone"):
            say(db, name, "x")
        branch(db, clock, "root", "branch")
        for name in ("pinned", "branch", "gone"):
            db.end_session(name, "done")
        db.set_session_pinned("pinned")
        db.set_session_pinned("branch")
        clock.advance(days=100)
        assert ids(db.list_prune_candidates()) == ["gone"]
        assert db.maybe_auto_prune_and_vacuum(vacuum=False)["pruned"] == 1
        assert db.prune_sessions(older_than_days=0) == 0
        assert {row["id"] for row in db.search_sessions()} == {"pinned", "root", "branch"}
        db.set_session_pinned("branch", pinned=False)
        assert db.prune_sessions(older_than_days=0) == 2
        assert db.message_count("pinned") == 1

    def test_a_pin_that_comes_late(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 104: a session that is pinned during pruning stays."""
        for name in ("first", "second"):
            clock.advance(1)
            # Large enough to be pruned in a step of its own.
            db.create_session(name, "cli")
            db.append_messages(name, [{"role": "user", "content": "x"}] * 1001)
            db.end_session(name, "done")
        clock.advance(days=100)

        def pin(_sessions: int) -> None:
            db.set_session_pinned("second")

        assert db.prune_sessions(on_progress=pin) == 1
        assert db.message_count("second") == 1001

    def test_ghosts(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 104: a pinned empty session is not a ghost."""
        for name in ("ghost", "kept"):
            db.create_session(name, "tui")
            db.end_session(name, "done")
        db.set_session_pinned("kept")
        clock.advance(days=2)
        assert db.prune_empty_ghost_sessions() == 1
        assert db.get_session("kept") is not None

    def test_deleting_by_name(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 104: it can be deleted on request; a restored one is still pinned."""
        for name in ("a", "b"):
            say(db, name, "x")
            db.set_session_pinned(name)
        assert db.trash_sessions(["a"]) == ["a"]
        assert db.restore_sessions(["a"]) == ["a"]
        assert session(db, "a")["pinned_at"] == clock()
        assert db.delete_session("b") is True

    def test_exports_carry_pins(self, db: SessionDB) -> None:
        """Behaviour 104: exports carry pins; an import adds pins and never removes one."""
        say(db, "s", "x")
        plain = db.export_all()
        db.set_session_pinned("s")
        [record] = db.export_all()
        pinned_at = record["pinned_at"]
        assert pinned_at is not None
        db.import_sessions(plain)
        assert session(db, "s")["pinned_at"] == pinned_at
        db.delete_session("s")
        db.import_sessions(plain)
        assert session(db, "s")["pinned_at"] is None
        db.delete_session("s")
        db.import_sessions([record])
        assert session(db, "s")["pinned_at"] == pinned_at


class TestArchive:
    """An archived thread disappears from lists and counts only."""

    def test_a_chain_is_archived_as_a_whole(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 96: archiving any member hides the whole chain from lists and counts."""
        db.create_session("root", "cli")
        compress(db, clock, "root", "tip")
        db.create_session("other", "cli")
        for member in ("tip", "root"):
            assert db.set_session_archived(member) is True
            assert ids(db.list_sessions_rich()) == ["other"]
            assert ids(db.list_sessions_rich(include_children=True)) == ["other"]
            assert ids(db.list_sessions_rich(order_by_last_active=False)) == ["other"]
            assert db.session_count() == 1
            assert db.session_count(include_archived=True) == 3
            assert db.set_session_archived(member, archived=False) is True
            assert set(ids(db.list_sessions_rich())) == {"other", "tip"}
            assert db.session_count() == 3

    def test_archived_sessions_on_request(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 96: with the others, or alone."""
        for name in ("a", "b", "c"):
            clock.advance(1)
            db.create_session(name, "cli")
        archived_at = clock.advance(1)
        db.set_session_archived("b")
        assert ids(db.list_sessions_rich(include_archived=True)) == ["c", "b", "a"]
        (row,) = db.list_sessions_rich(archived_only=True)
        assert (row["id"], row["archived_at"]) == ("b", archived_at)
        assert session(db, "a")["archived_at"] is None

    def test_an_unknown_session(self, db: SessionDB) -> None:
        """Behaviour 96: an unknown session cannot be archived."""
        assert db.set_session_archived("missing") is False
        assert db.set_session_archived("missing", archived=False) is False

    def test_an_archived_session_is_whole(self, db: SessionDB) -> None:
        """It can be read, found by title, resumed and continued."""
        db.create_session("s", "cli")
        exchange(db, "s", "question", "answer")
        db.set_session_title("s", "T")
        db.set_session_archived("s")
        assert contents(db.get_messages("s")) == ["question", "answer"]
        assert db.resolve_session_by_title("T") == "s"
        assert db.resolve_session_id("s") == "s"
        assert db.export_session("s") is not None
        db.append_message("s", "user", "more")
        assert db.message_count("s") == 3
        assert db.list_sessions_rich() == []

    @pytest.mark.parametrize("by_activity", [True, False])
    def test_a_continuation_of_an_archived_thread(
        self, db: SessionDB, clock: FrozenClock, by_activity: bool
    ) -> None:
        """A continuation is archived with its thread until a user unarchives the thread."""
        db.create_session("root", "cli")
        db.set_session_archived("root")
        compress(db, clock, "root", "tip")
        assert db.list_sessions_rich(order_by_last_active=by_activity) == []
        rows = db.list_sessions_rich(archived_only=True, order_by_last_active=by_activity)
        assert ids(rows) == ["tip"]
        db.set_session_archived("tip", archived=False)
        assert ids(db.list_sessions_rich(order_by_last_active=by_activity)) == ["tip"]
