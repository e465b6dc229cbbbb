"""Continuations: a session goes on under a new id, with a summary instead of its messages."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from hermes_sessions.errors import HermesSessionsError, InvalidInput, UnknownSession
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.testing.conformance.helpers import contents


class TestContinuation:
    """Everything at once, or nothing."""

    def test_what_the_new_session_has(self, db: SessionDB) -> None:
        """Its parent's identity, the next title, the messages given."""
        db.create_session("a", "cli", model="m", user_id="ada", system_prompt="Be brief.")
        db.set_session_title("a", "my project")
        db.append_message("a", "user", "the long story of the pangolin")
        assert db.continue_session("a", "b", [{"role": "user", "content": "in short"}]) == "b"
        made, old = db.get_session("b"), db.get_session("a")
        assert made is not None
        assert old is not None
        kept = ("source", "user_id", "model", "system_prompt", "conversation_id")
        assert [made[name] for name in kept] == ["cli", "ada", "m", "Be brief.", "a"]
        assert (made["parent_session_id"], made["edge_kind"]) == ("a", "compression")
        assert (made["title"], old["title"]) == ("my project #2", "my project")
        assert contents(db.get_messages("b")) == ["in short"]
        assert (old["end_reason"], made["ended_at"]) == ("compression", None)
        assert made["message_count"] == 1

    def test_every_name_leads_to_the_newest(self, db: SessionDB) -> None:
        """By id or title of the family; the originals are still found."""
        db.create_session("a", "cli")
        db.set_session_title("a", "my project")
        db.append_message("a", "user", "the long story of the pangolin")
        db.continue_session("a", "b", [{"role": "user", "content": "in short"}])
        db.continue_session("b", "c", [{"role": "user", "content": "shorter"}])
        assert {db.resolve_resume_session_id(name) for name in "abc"} == {"c"}
        assert db.get_session_title("c") == "my project #3"
        assert db.resolve_session_by_title("my project") == "c"
        assert [hit["session_id"] for hit in db.search_messages("pangolin")] == ["a"]
        assert [row["id"] for row in db.list_sessions_rich()] == ["c"]

    def test_only_the_newest_can_be_continued(self, db: SessionDB) -> None:
        """And only under a new id; nothing was changed otherwise."""
        db.create_session("a", "cli")
        db.create_session("x", "cli")
        db.continue_session("a", "b")
        with pytest.raises(InvalidInput, match="'b'"):
            db.continue_session("a", "c")
        with pytest.raises(InvalidInput, match="already"):
            db.continue_session("b", "x")
        with pytest.raises(UnknownSession):
            db.continue_session("unknown", "c")
        with pytest.raises(InvalidInput):
            db.continue_session("b", " ")
        with pytest.raises(InvalidInput):
            db.continue_session("b", "c", [{"role": "", "content": "x"}])
        session = db.get_session("b")
        assert session is not None
        assert session["ended_at"] is None
        assert db.get_session("c") is None

    def test_rivals(self, db: SessionDB) -> None:
        """One of them continues the session, the others are refused."""
        db.create_session("a", "cli")
        made: list[str] = []

        def work(name: str) -> None:
            with suppress(HermesSessionsError):
                made.append(db.continue_session("a", name))

        threads = [threading.Thread(target=work, args=(f"b{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 1
        assert db.get_compression_lineage("a") == ["a", *made]
