"""Pins: what is pinned is never pruned."""

from __future__ import annotations

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.clock import FrozenClock
from hermes_sessions.testing.conformance.helpers import branch, compress, ids, say, session


class TestPins:
    """A pinned thread stays, with everything that belongs to its conversation."""

    def test_a_pin_and_its_end(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 104: it has a time, lists show it, and it can be taken back."""
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
        """Behaviour 104: there is nothing to pin; what is in the trash is out of sight."""
        assert db.set_session_pinned("missing") is False
        db.create_session("s", "cli")
        db.trash_sessions(["s"])
        assert db.set_session_pinned("s") is False

    def test_a_chain_is_pinned_as_a_whole(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 104: whichever member is named; what continues it is pinned, too."""
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
        """Behaviour 104: nor is any session of the same conversation."""
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
        """Behaviour 104: what is pinned while others are pruned stays."""
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
        """Behaviour 104: an empty session that is pinned is no ghost."""
        for name in ("ghost", "kept"):
            db.create_session(name, "tui")
            db.end_session(name, "done")
        db.set_session_pinned("kept")
        clock.advance(days=2)
        assert db.prune_empty_ghost_sessions() == 1
        assert db.get_session("kept") is not None

    def test_deleting_by_name(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 104: a pin does not stand against what is asked for; a restored one is back."""
        for name in ("a", "b"):
            say(db, name, "x")
            db.set_session_pinned(name)
        assert db.trash_sessions(["a"]) == ["a"]
        assert db.restore_sessions(["a"]) == ["a"]
        assert session(db, "a")["pinned_at"] == clock()
        assert db.delete_session("b") is True

    def test_exports_carry_pins(self, db: SessionDB) -> None:
        """Behaviour 104: out and in again; an import pins, and never takes a pin away."""
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
