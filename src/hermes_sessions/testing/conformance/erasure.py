"""Forgetting a person or a session: everything goes, and a receipt stays."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, NotFound, StaleFence, UnknownSession
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.targets import Subject
from hermes_sessions.storage.sessiondb import SessionDB

_WORD = "xylographer"


def _talk(db: SessionDB, session_id: str, user_id: str | None, text: str, **more: Any) -> None:
    db.create_session(session_id, "telegram", user_id=user_id, **more)
    db.append_message(session_id, "user", text)


class TestErasure:
    """A person, a session, and what is left of them."""

    def test_a_person(self, db: SessionDB) -> None:
        """Behaviour 105: with everything that belongs to their sessions; others miss nothing."""
        _talk(db, "a1", "ann", f"my {_WORD}")
        db.set_session_title("a1", f"A {_WORD}")
        db.continue_session("a1", "a2", [{"role": "user", "content": f"{_WORD} so far"}])
        _talk(db, "a3", "ann", f"{_WORD} in the trash")
        db.trash_sessions(["a3"])
        db.update_token_counts("a1", input_tokens=3, model="m")
        _talk(db, "b1", "bob", "good morning")
        before = db.get_messages("b1")
        assert len(db.search(_WORD).hits) == 2
        receipt = Erasure(db.store).forget(Subject("user", "ann"))
        assert receipt.status == "done"
        assert [db.get_session(session_id) for session_id in ("a1", "a2", "a3")] == [None] * 3
        assert db.list_trash() == []
        assert db.get_model_usage("a1") == []
        assert db.search(_WORD).hits == []
        assert db.get_messages("b1") == before
        assert [session["id"] for session in db.list_sessions_rich()] == ["b1"]

    def test_a_session_with_its_lineage(self, db: SessionDB) -> None:
        """A session takes branches and continuations along; its id is free again."""
        _talk(db, "root", None, _WORD)
        _talk(db, "branch", None, _WORD, parent_session_id="root", edge_kind="branch")
        _talk(db, "other", None, "hello")
        receipt = Erasure(db.store).forget(Subject("session", "branch"))
        step = receipt.step("database")
        assert step is not None
        assert (step.removed["sessions"], step.removed["messages"]) == (2, 2)
        assert [session["id"] for session in db.list_sessions_rich()] == ["other"]
        db.create_session("root", "cli")
        assert db.get_messages("root") == []

    def test_one_who_holds_it_is_fenced_off(self, db: SessionDB) -> None:
        """Behaviour 106: whoever is in the middle of a turn stores nothing more."""
        _talk(db, "s", "ann", _WORD)
        lease = db.take_lease("s", "somebody")
        Erasure(db.store).forget(Subject("user", "ann"))
        with pytest.raises((StaleFence, UnknownSession)):
            db.append_message("s", "assistant", _WORD, fence=lease.token)
        with pytest.raises(UnknownSession):
            db.append_message("s", "assistant", _WORD)
        assert db.get_session("s") is None

    def test_a_plan_changes_nothing(self, db: SessionDB) -> None:
        """It says what would go, and that of a stranger is empty."""
        _talk(db, "s", "ann", _WORD)
        plan = Erasure(db.store).plan(Subject("user", "ann"))
        assert plan.places["database"] == {"sessions": 1, "messages": 1}
        assert plan.targets.session_ids == ("s",)
        assert db.get_session("s") is not None
        assert Erasure(db.store).plan(Subject("user", "nobody")).is_empty

    def test_receipts_can_be_asked_for(self, db: SessionDB) -> None:
        """By whoever knows the id; a finished one is shown again as it is."""
        _talk(db, "s", "ann", _WORD)
        erasure = Erasure(db.store)
        receipt = erasure.forget(Subject("user", "ann"))
        assert erasure.receipts() == erasure.receipts(Subject("user", "ann")) == [receipt]
        assert erasure.receipts(Subject("user", "bob")) == []
        assert erasure.resume(receipt.id) == receipt
        with pytest.raises(NotFound):
            erasure.resume("no such receipt")
        with pytest.raises(InvalidInput):
            erasure.forget(Subject("user", ""))
