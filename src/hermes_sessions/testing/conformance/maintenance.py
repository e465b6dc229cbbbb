"""Maintenance: the housekeeping that programs run at start, and giving back space."""

from __future__ import annotations

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.clock import FrozenClock
from hermes_sessions.testing.conformance.helpers import contents, exchange, ids


def old_and_ended(db: SessionDB, clock: FrozenClock, name: str) -> None:
    """Create a session that is due for pruning."""
    db.create_session(name, "cli")
    exchange(db, name, "hi")
    db.end_session(name, "done")
    clock.advance(days=100)


class TestMaintenance:
    """Housekeeping runs now and then, and never gets in the way."""

    def test_at_most_once_per_interval(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 77: the second run is skipped until the time has come."""
        old_and_ended(db, clock, "a")
        assert db.maybe_auto_prune_and_vacuum() == {
            "skipped": False,
            "pruned": 1,
            "vacuumed": True,
        }
        old_and_ended(db, clock, "b")
        clock.advance(days=-100 + 0.9)
        again = db.maybe_auto_prune_and_vacuum()
        assert (again["skipped"], again["pruned"], again["vacuumed"]) == (True, 0, False)
        clock.advance(days=100)
        assert db.maybe_auto_prune_and_vacuum()["pruned"] == 1

    def test_nothing_to_do(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 77: without pruning, nothing is rewritten; the run counts all the same."""
        db.create_session("s", "cli")
        assert db.maybe_auto_prune_and_vacuum() == {
            "skipped": False,
            "pruned": 0,
            "vacuumed": False,
        }
        assert db.maybe_auto_prune_and_vacuum()["skipped"] is True
        clock.advance(3601)
        assert db.maybe_auto_prune_and_vacuum(min_interval_hours=1)["skipped"] is False

    def test_what_has_been_in_the_trash_for_long(self, db: SessionDB, clock: FrozenClock) -> None:
        """Thirty days unless set; what is younger can still be restored."""
        for name in ("old", "young"):
            db.create_session(name, "cli")
            exchange(db, name, "hi")
        db.trash_sessions(["old"])
        clock.advance(days=20)
        db.trash_sessions(["young"])
        assert "purged" not in db.maybe_auto_prune_and_vacuum()
        clock.advance(days=11)
        result = db.maybe_auto_prune_and_vacuum()
        assert (result["purged"], result["pruned"], result["vacuumed"]) == (1, 0, True)
        assert ids(db.list_trash()) == ["young"]
        clock.advance(days=2)
        assert "purged" not in db.maybe_auto_prune_and_vacuum(trash_days=14)
        assert db.restore_sessions(["young"]) == ["young"]
        db.trash_sessions(["young"])
        clock.advance(days=2)
        assert db.maybe_auto_prune_and_vacuum(trash_days=0)["purged"] == 1

    @pytest.mark.parametrize("remembered", ["garbage", "", None, "nan"])
    def test_an_unreadable_memory_of_the_last_run(
        self, db: SessionDB, remembered: str | None
    ) -> None:
        """Behaviour 77: means that there was none."""
        db.set_meta("last_auto_prune", remembered)
        assert db.maybe_auto_prune_and_vacuum()["skipped"] is False
        assert db.maybe_auto_prune_and_vacuum()["skipped"] is True

    def test_without_giving_back_space(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 77: and with another idea of what is old."""
        old_and_ended(db, clock, "s")
        result = db.maybe_auto_prune_and_vacuum(retention_days=200, vacuum=False)
        assert (result["pruned"], result["vacuumed"]) == (0, False)
        clock.advance(days=2)
        result = db.maybe_auto_prune_and_vacuum(retention_days=50, vacuum=False)
        assert (result["pruned"], result["vacuumed"]) == (1, False)

    def test_a_closed_store(self, db: SessionDB) -> None:
        """Behaviour 77: is reported, not raised."""
        db.close()
        result = db.maybe_auto_prune_and_vacuum()
        assert result["error"]
        assert (result["pruned"], result["vacuumed"]) == (0, False)

    def test_giving_back_space_loses_nothing(self, db: SessionDB) -> None:
        """What is stored stays, and the store can be used on."""
        db.create_session("s", "cli")
        db.append_messages("s", [{"role": "user", "content": "x" * 1_000}] * 200)
        db.create_session("t", "cli")
        exchange(db, "t", "question", "answer")
        db.delete_session("s")
        db.vacuum()
        assert contents(db.get_messages("t")) == ["question", "answer"]
        exchange(db, "t", "more")
        assert db.message_count("t") == 4
