"""Handoff: a session continues on another platform, claimed by one process."""

from __future__ import annotations

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.concurrency import THREADS, at_once
from hermes_sessions_testing.conformance.helpers import ids, session

NOTHING = {"state": None, "platform": None, "error": None}


class TestHandoff:
    """States: none, pending, running, completed, failed."""

    def test_from_request_to_end(self, db: SessionDB) -> None:
        """Behaviours 80 and 81: every handle sees each step."""
        db.create_session("s", "cli")
        assert db.get_handoff_state("s") == NOTHING
        assert db.request_handoff("s", "telegram") is True
        pending, running, completed = (
            {"state": state, "platform": "telegram", "error": None}
            for state in ("pending", "running", "completed")
        )
        assert db.get_handoff_state("s") == pending
        assert db.list_pending_handoffs() == [session(db, "s")]
        assert db.claim_handoff("s") is True
        assert db.get_handoff_state("s") == running
        assert db.list_pending_handoffs() == []
        db.complete_handoff("s")
        assert db.get_handoff_state("s") == completed

    def test_one_at_a_time(self, db: SessionDB) -> None:
        """Behaviour 80: in flight, a second request is refused and changes nothing."""
        db.create_session("s", "cli")
        assert db.request_handoff("s", "telegram") is True
        assert db.request_handoff("s", "discord") is False
        assert db.claim_handoff("s") is True
        assert db.request_handoff("s", "discord") is False
        assert db.get_handoff_state("s") == {
            "state": "running",
            "platform": "telegram",
            "error": None,
        }

    @pytest.mark.parametrize("failed", [True, False])
    def test_asked_for_again(self, db: SessionDB, failed: bool) -> None:
        """Behaviour 80: it can be requested again after its end; its error is cleared."""
        db.create_session("s", "cli")
        db.request_handoff("s", "telegram")
        db.claim_handoff("s")
        if failed:
            db.fail_handoff("s", "nobody is there")
            assert db.get_handoff_state("s") == {
                "state": "failed",
                "platform": "telegram",
                "error": "nobody is there",
            }
        else:
            db.complete_handoff("s")
        assert db.request_handoff("s", "discord") is True
        assert db.get_handoff_state("s") == {
            "state": "pending",
            "platform": "discord",
            "error": None,
        }

    def test_long_errors_are_cut(self, db: SessionDB) -> None:
        """Behaviour 80: to 500 characters."""
        db.create_session("s", "cli")
        db.fail_handoff("s", "é" * 600)
        state = db.get_handoff_state("s")
        assert state is not None
        assert state["error"] == "é" * 500

    def test_claimed_without_a_request(self, db: SessionDB) -> None:
        """Only a pending handoff can be claimed, and only once."""
        db.create_session("s", "cli")
        assert db.claim_handoff("s") is False
        db.request_handoff("s", "telegram")
        assert [db.claim_handoff("s"), db.claim_handoff("s")] == [True, False]

    def test_one_of_many_claims_it(self, db: SessionDB) -> None:
        """Behaviour 80: one claim wins, the others return False; the same for requests."""
        db.create_session("s", "cli")
        asked = at_once(lambda number: db.request_handoff("s", f"platform {number}"))
        assert sorted(asked) == [False] * (THREADS - 1) + [True]
        state = db.get_handoff_state("s")
        assert state is not None
        assert state["platform"] == f"platform {asked.index(True)}"
        claimed = at_once(lambda _: db.claim_handoff("s"))
        assert sorted(claimed) == [False] * (THREADS - 1) + [True]

    def test_the_oldest_first(self, db: SessionDB, clock: FrozenClock) -> None:
        """Ordered by session start; trashed sessions are not listed."""
        for name in ("a", "b", "c", "d"):
            db.create_session(name, "cli")
            clock.advance(1)
        for name in ("d", "b", "a"):
            db.request_handoff(name, "telegram")
        assert ids(db.list_pending_handoffs()) == ["a", "b", "d"]
        db.trash_sessions(["b"])
        assert ids(db.list_pending_handoffs()) == ["a", "d"]
        assert db.claim_handoff("b") is False

    def test_unknown_sessions(self, db: SessionDB) -> None:
        """Behaviour 81: they have no handoff."""
        assert db.request_handoff("missing", "telegram") is False
        assert db.claim_handoff("missing") is False
        assert db.get_handoff_state("missing") is None
        db.complete_handoff("missing")
        db.fail_handoff("missing", "why")
        assert db.session_count() == 0

    @pytest.mark.parametrize("platform", ["", None, 7])
    def test_a_platform_is_named(self, db: SessionDB, platform: str) -> None:
        """A target platform is required."""
        db.create_session("s", "cli")
        with pytest.raises(InvalidInput, match="platform"):
            db.request_handoff("s", platform)
        assert db.get_handoff_state("s") == NOTHING
