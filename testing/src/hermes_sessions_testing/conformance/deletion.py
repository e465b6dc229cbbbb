"""Deletion: for good, with everything that belongs to a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, NotFound, StaleFence, UnknownSession
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.targets import Subject
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import branch, compress, exchange, ids, session

# Erasure of a user or a session: everything is deleted, and a receipt stays.


_WORD = "xylographer"


def _talk(db: SessionDB, session_id: str, user_id: str | None, text: str, **more: Any) -> None:
    db.create_session(session_id, "telegram", user_id=user_id, **more)
    db.append_message(session_id, "user", text)


class TestErasure:
    """Erasure of users and sessions, and its receipts."""

    def test_a_person(self, db: SessionDB) -> None:
        """Behaviour 105: everything in their sessions is deleted; other sessions are unchanged."""
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
        """Branches and continuations are deleted with the session; its id can be used again."""
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
        """Behaviour 106: a running turn stores nothing more."""
        _talk(db, "s", "ann", _WORD)
        lease = db.take_lease("s", "somebody")
        Erasure(db.store).forget(Subject("user", "ann"))
        with pytest.raises((StaleFence, UnknownSession)):
            db.append_message("s", "assistant", _WORD, fence=lease.token)
        with pytest.raises(UnknownSession):
            db.append_message("s", "assistant", _WORD)
        assert db.get_session("s") is None

    def test_a_plan_changes_nothing(self, db: SessionDB) -> None:
        """The plan lists what would be deleted; it is empty for an unknown user."""
        _talk(db, "s", "ann", _WORD)
        plan = Erasure(db.store).plan(Subject("user", "ann"))
        assert plan.places["database"] == {"sessions": 1, "messages": 1}
        assert plan.targets.session_ids == ("s",)
        assert db.get_session("s") is not None
        assert Erasure(db.store).plan(Subject("user", "nobody")).is_empty

    def test_receipts_can_be_asked_for(self, db: SessionDB) -> None:
        """Any caller with the id can resume it; a finished one is returned unchanged."""
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


class TestDeletion:
    """Deletion removes everything of a session and nothing of others."""

    def test_an_unknown_session(self, db: SessionDB) -> None:
        """Behaviour 72: there is nothing to delete."""
        assert db.delete_session("missing") is False
        assert db.delete_sessions(["missing"]) == 0
        assert db.delete_sessions([]) == 0

    def test_a_session_with_its_messages(self, db: SessionDB) -> None:
        """Behaviour 72: messages, title and usage go; other sessions stay."""
        for name in ("s", "other"):
            db.create_session(name, "cli")
            exchange(db, name, "hi")
            db.update_token_counts(name, input_tokens=5, model="m")
        db.set_session_title("s", "Plan")
        db.try_acquire_compression_lock("s", "a")
        assert db.delete_session("s") is True
        assert db.get_session("s") is None
        assert db.get_messages("s") == []
        assert db.get_model_usage("s") == []
        assert db.message_count() == 2
        assert db.set_session_title("other", "Plan") is True
        assert db.delete_session("s") is False

    def test_a_new_session_under_an_old_id(self, db: SessionDB) -> None:
        """Behaviour 72: the new session is empty."""
        db.create_session("s", "cli", model="m")
        question, _ = exchange(db, "s", "hi")
        db.append_message("s", "user", "x", external_id="e")
        db.rewind_to_message("s", question)
        db.update_token_counts("s", input_tokens=5)
        db.try_acquire_compression_lock("s", "a")
        db.delete_session("s")
        db.create_session("s", "telegram")
        stored = session(db, "s")
        assert (stored["source"], stored["model"], stored["message_count"]) == ("telegram", None, 0)
        assert (stored["input_tokens"], stored["rewind_count"]) == (0, 0)
        assert db.get_messages("s", include_inactive=True) == []
        assert (db.list_rewinds("s"), db.get_model_usage("s")) == ([], [])
        assert db.has_external_id("s", "e") is False
        assert db.try_acquire_compression_lock("s", "b") is True

    def test_children_stay_without_a_parent(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 72: children stay, and are listed on their own."""
        db.create_session("s", "cli")
        db.create_session("child", "cli", parent_session_id="s")
        exchange(db, "child", "hi")
        compress(db, clock, "s", "tip")
        clock.advance(1)
        db.create_session("grandchild", "cli", parent_session_id="tip", edge_kind="branch")
        assert db.delete_session("s") is True
        for name in ("child", "tip"):
            assert session(db, name)["parent_session_id"] is None
        assert session(db, "grandchild")["parent_session_id"] == "tip"
        assert set(ids(db.list_sessions_rich())) == {"child", "tip", "grandchild"}
        assert not any("_lineage_root_id" in row for row in db.list_sessions_rich())
        assert db.message_count("child") == 2

    def test_orphans_do_not_belong_to_a_later_session(self, db: SessionDB) -> None:
        """Behaviour 72: a new session with the id of a deleted parent is not their parent."""
        db.create_session("s", "cli")
        db.create_session("fork", "cli", parent_session_id="s", edge_kind="branch")
        db.create_session("fork of fork", "cli", parent_session_id="fork", edge_kind="branch")
        db.delete_session("s")
        db.create_session("s", "cli")
        assert ids(db.list_conversation("s")) == ["s"]
        assert set(ids(db.list_conversation("fork of fork"))) == {"fork", "fork of fork"}
        assert db.get_conversation_root("fork of fork") == "fork"

    def test_a_middle_of_a_chain(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 72: the thread is split in two."""
        db.create_session("a", "cli")
        compress(db, clock, "a", "b")
        compress(db, clock, "b", "c")
        compress(db, clock, "c", "d")
        db.delete_session("b")
        assert db.get_compression_lineage("a") == ["a"]
        assert db.get_compression_lineage("d") == ["c", "d"]
        assert ids(db.list_sessions_rich()) == ["d", "a"]
        assert ids(db.list_sessions_rich(order_by_last_active=False)) == ["d", "a"]

    def test_subagents_go_and_branches_stay(self, db: SessionDB, clock: FrozenClock) -> None:
        """Behaviour 97: by their marker or their stated kind, at every depth."""
        db.create_session("s", "cli")
        db.create_session("d1", "cli", parent_session_id="s", model_config={"_delegate_from": "s"})
        db.create_session("d2", "cli", parent_session_id="d1", edge_kind="subagent")
        db.create_session("b1", "cli", parent_session_id="s", model_config={"_branched_from": "s"})
        branch(db, clock, "s", "b2")
        for name in ("d1", "d2", "b1", "b2"):
            exchange(db, name, "hi")
        assert db.delete_session("s") is True
        assert set(ids(db.search_sessions())) == {"b1", "b2"}
        assert db.message_count() == 4
        assert session(db, "b1")["parent_session_id"] is None

    def test_several_sessions(self, db: SessionDB) -> None:
        """Existing sessions are counted once each."""
        for number in range(5):
            db.create_session(f"s{number}", "cli")
        assert db.delete_sessions(["s1", "missing", "s3", "s1"]) == 2
        assert {row["id"] for row in db.search_sessions()} == {"s0", "s2", "s4"}

    def test_a_large_session(self, db: SessionDB) -> None:
        """The session is deleted when the call returns."""
        db.create_session("s", "cli")
        db.create_session("other", "cli")
        db.append_message("other", "user", "kept")
        db.append_messages("s", [{"role": "user", "content": str(n)} for n in range(2_500)])
        assert db.delete_session("s") is True
        assert db.get_messages("s", include_inactive=True) == []
        assert (db.session_count(), db.message_count()) == (1, 1)
        db.create_session("s", "cli")
        assert db.get_messages("s", include_inactive=True) == []

    @pytest.mark.parametrize("verb", ["delete", "delete several", "purge", "prune"])
    def test_transcript_files(
        self, db: SessionDB, clock: FrozenClock, tmp_path: Path, verb: str
    ) -> None:
        """Behaviour 73: files named after the session go with it, all others stay."""
        folder = tmp_path / "transcripts"
        folder.mkdir()
        db.create_session("s", "cli")
        gone = ["s.json", "s.jsonl", "request_dump_s_x.json", "request_dump_s_2025_1.json"]
        kept = ["request_dump_s.json", "t.json", "ss.jsonl", "s.txt", "request_dump_t_x.json"]
        for file in (*gone, *kept):
            (folder / file).write_text("{}")
        db.end_session("s", "done")
        if verb == "delete":
            assert db.delete_session("s", sessions_dir=folder) is True
        elif verb == "delete several":
            assert db.delete_sessions(["s"], sessions_dir=str(folder)) == 1
        elif verb == "purge":
            db.trash_sessions(["s"])
            assert db.purge_trash(sessions_dir=folder) == 1
        else:
            clock.advance(days=100)
            assert db.prune_sessions(sessions_dir=folder) == 1
        assert {file.name for file in folder.iterdir()} == set(kept)

    @pytest.mark.parametrize("name", ["*", "../outside", "[s]", "a/b", "..", "s\x00", "*/../.."])
    def test_an_id_is_no_path_and_no_pattern(
        self, db: SessionDB, tmp_path: Path, name: str
    ) -> None:
        """Behaviour 73: no id reaches files of other sessions, or other folders."""
        folder = tmp_path / "inner"
        folder.mkdir()
        kept = [folder / "s.json", folder / "request_dump_s_1.json", tmp_path / "outside.json"]
        for file in kept:
            file.write_text("{}")
        db.create_session(name, "cli")
        assert db.delete_session(name, sessions_dir=folder) is True
        assert all(file.exists() for file in kept)

    def test_a_folder_that_is_not_there(self, db: SessionDB, tmp_path: Path) -> None:
        """Behaviour 73: the session is deleted even if its files cannot be."""
        db.create_session("s", "cli")
        assert db.delete_session("s", sessions_dir=tmp_path / "missing") is True
