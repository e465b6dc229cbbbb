"""Archive: threads that are kept and not shown."""

from __future__ import annotations

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.clock import FrozenClock
from hermes_sessions.testing.conformance.helpers import compress, contents, exchange, ids, session


class TestArchive:
    """An archived thread leaves lists and counts, and nothing else."""

    def test_a_chain_is_archived_as_a_whole(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 96: whichever member is named, all vanish from list and count."""
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
        """Behaviour 96: there is nothing to archive."""
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
        """It belongs to the archived thread until somebody takes that out of the archive."""
        db.create_session("root", "cli")
        db.set_session_archived("root")
        compress(db, clock, "root", "tip")
        assert db.list_sessions_rich(order_by_last_active=by_activity) == []
        rows = db.list_sessions_rich(archived_only=True, order_by_last_active=by_activity)
        assert ids(rows) == ["tip"]
        db.set_session_archived("tip", archived=False)
        assert ids(db.list_sessions_rich(order_by_last_active=by_activity)) == ["tip"]
