"""Holds: what is on hold is not deleted, by nobody."""

from __future__ import annotations

import pytest

from hermes_sessions.errors import InvalidInput, OnHold
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.clock import FrozenClock
from hermes_sessions.testing.conformance.helpers import branch, ids, say, session


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
