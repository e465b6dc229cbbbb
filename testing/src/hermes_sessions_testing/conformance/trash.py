"""Trash: sessions that are hidden everywhere and can be restored."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from hermes_sessions.errors import InvalidInput, UnknownSession
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.helpers import (
    assert_summary_is_true,
    branch,
    compress,
    contents,
    exchange,
    ids,
    session,
)


def thrown_away(db: SessionDB) -> list[int]:
    """Put a session ``s`` with two messages, a title and usage into the trash; return the ids."""
    db.create_session("s", "cli", user_id="u")
    added = exchange(db, "s", "question", "answer")
    db.append_message("s", "user", "marked", external_id="e-1", platform_message_id="p-1")
    db.record_compression_failure_cooldown("s", 4e9)
    db.set_compression_fallback_streak("s", 2)
    db.record_gateway_session_peer("s", source="cli", user_id="u", session_key="k", chat_id="1")
    db.update_session_cwd("s", "/no/w")
    db.set_session_title("s", "Plan")
    db.update_token_counts("s", input_tokens=5, model="m")
    assert db.trash_sessions(["s"]) == ["s"]
    return added


#: Every way to read something of session ``s``, and what it gives when there is no such session.
READS: list[tuple[str, Callable[[SessionDB, int], Any], Any]] = [
    ("get_session", lambda db, _: db.get_session("s"), None),
    ("get_session_title", lambda db, _: db.get_session_title("s"), None),
    ("get_session_by_title", lambda db, _: db.get_session_by_title("Plan"), None),
    ("resolve_session_by_title", lambda db, _: db.resolve_session_by_title("Plan"), None),
    ("get_next_title", lambda db, _: db.get_next_title_in_lineage("Plan"), "Plan"),
    ("resolve_session_id", lambda db, _: db.resolve_session_id("s"), None),
    ("find_session_ids", lambda db, _: db.find_session_ids("s"), []),
    ("list_sessions_rich", lambda db, _: db.list_sessions_rich(), []),
    ("list by start", lambda db, _: db.list_sessions_rich(order_by_last_active=False), []),
    ("list children", lambda db, _: db.list_sessions_rich(include_children=True), []),
    ("list archived", lambda db, _: db.list_sessions_rich(include_archived=True), []),
    ("search_sessions", lambda db, _: db.search_sessions(), []),
    ("session_count", lambda db, _: db.session_count(include_archived=True), 0),
    ("message_count", lambda db, _: db.message_count("s"), 0),
    ("message_count of all", lambda db, _: db.message_count(), 0),
    ("get_messages", lambda db, _: db.get_messages("s", include_inactive=True), []),
    ("conversation", lambda db, _: db.get_messages_as_conversation("s"), []),
    (
        "conversation with ancestors",
        lambda db, _: db.get_messages_as_conversation("s", include_ancestors=True),
        [],
    ),
    ("get_messages_around", lambda db, at: db.get_messages_around("s", at)["window"], []),
    ("get_anchored_view", lambda db, at: db.get_anchored_view("s", at)["window"], []),
    ("has_external_id", lambda db, _: db.has_external_id("s", "e-1"), False),
    ("list_rewinds", lambda db, _: db.list_rewinds("s"), []),
    ("list_recent_user_messages", lambda db, _: db.list_recent_user_messages("s"), []),
    ("get_model_usage", lambda db, _: db.get_model_usage("s"), []),
    ("export_session", lambda db, _: db.export_session("s"), None),
    ("export_session_lineage", lambda db, _: db.export_session_lineage("s"), []),
    ("export_all", lambda db, _: db.export_all(), []),
    ("get_compression_tip", lambda db, _: db.get_compression_tip("s"), "s"),
    ("get_compression_lineage", lambda db, _: db.get_compression_lineage("s"), []),
    ("list_conversation", lambda db, _: db.list_conversation("s"), []),
    ("resolve_resume_session_id", lambda db, _: db.resolve_resume_session_id("s"), "s"),
    ("list_prune_candidates", lambda db, _: db.list_prune_candidates(0), []),
    ("message_count of all kinds", lambda db, _: db.message_count(include_inactive=True), 0),
    ("session_count of rows", lambda db, _: db.session_count(exclude_children=True), 0),
    ("directories", lambda db, _: db.distinct_session_cwds(), []),
    ("search_sessions_by_id", lambda db, _: db.search_sessions_by_id("s"), []),
    ("list_gateway_sessions", lambda db, _: db.list_gateway_sessions(), []),
    (
        "latest of a chat",
        lambda db, _: db.find_latest_gateway_session_for_peer(source="cli", session_key="k"),
        None,
    ),
    (
        "session by origin",
        lambda db, _: db.find_session_by_origin(platform="cli", chat_id="1"),
        None,
    ),
    ("has_platform_message_id", lambda db, _: db.has_platform_message_id("s", "p-1"), False),
    ("has_archived_messages", lambda db, _: db.has_archived_messages("s"), False),
    ("cooldown", lambda db, _: db.get_compression_failure_cooldown("s"), None),
    ("streak", lambda db, _: db.get_compression_fallback_streak("s"), 0),
    ("count_empty_sessions", lambda db, _: db.count_empty_sessions(), 0),
]

#: Every way to change session ``s`` that does nothing when there is no such session.
CHANGES: list[tuple[str, Callable[[SessionDB], Any], Any]] = [
    ("end_session", lambda db: db.end_session("s", "done"), None),
    ("reopen_session", lambda db: db.reopen_session("s"), None),
    ("update_system_prompt", lambda db: db.update_system_prompt("s", "x"), None),
    ("update_session_model", lambda db: db.update_session_model("s", "x"), None),
    ("set_session_title", lambda db: db.set_session_title("s", "Other"), False),
    ("set_auto_title_if_empty", lambda db: db.set_auto_title_if_empty("s", "Other"), False),
    ("set_session_archived", lambda db: db.set_session_archived("s"), False),
    ("clear_messages", lambda db: db.clear_messages("s"), None),
    ("replace_messages", lambda db: db.replace_messages("s", []), None),
    ("restore_rewound", lambda db: db.restore_rewound("s"), 0),
    ("delete_session", lambda db: db.delete_session("s"), False),
    ("delete_sessions", lambda db: db.delete_sessions(["s"]), 0),
    ("prune_sessions", lambda db: db.prune_sessions(0), 0),
    ("trash_sessions", lambda db: db.trash_sessions(["s"]), []),
    ("promote_to_session_reset", lambda db: db.promote_to_session_reset("s"), False),
    ("promote with a reason", lambda db: db.promote_to_session_reset("s", "idle"), False),
    ("update_session_cwd", lambda db: db.update_session_cwd("s", "/no/x"), None),
    (
        "record_gateway_session_peer",
        lambda db: db.record_gateway_session_peer("s", source="t", session_key="other"),
        None,
    ),
    ("set_expiry_finalized", lambda db: db.set_expiry_finalized("s"), None),
    ("update_session_meta", lambda db: db.update_session_meta("s", "{}", "other"), None),
    (
        "update_session_billing_route",
        lambda db: db.update_session_billing_route("s", provider="p", base_url=None),
        None,
    ),
    ("archive_and_compact", lambda db: db.archive_and_compact("s", []), 0),
    ("api content", lambda db: db.set_latest_user_api_content("s", "marked", "x"), 0),
    ("archive_sessions", lambda db: db.archive_sessions(), 0),
    ("delete_session_if_empty", lambda db: db.delete_session_if_empty("s"), False),
    ("delete_empty_sessions", lambda db: db.delete_empty_sessions(), 0),
]


class TestTrash:
    """A trashed session is visible only to the methods of the trash."""

    @pytest.mark.parametrize(("read", "nothing"), [r[1:] for r in READS], ids=[r[0] for r in READS])
    def test_it_cannot_be_read(
        self, db: SessionDB, read: Callable[[SessionDB, int], Any], nothing: Any
    ) -> None:
        """Every reader behaves as if the session did not exist."""
        question, _ = thrown_away(db)
        assert read(db, question) == nothing

    @pytest.mark.parametrize(
        ("change", "nothing"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES]
    )
    def test_it_cannot_be_changed(
        self,
        db: SessionDB,
        caplog: pytest.LogCaptureFixture,
        change: Callable[[SessionDB], Any],
        nothing: Any,
    ) -> None:
        """Every writer behaves as if the session did not exist, and does not change it."""
        thrown_away(db)
        with caplog.at_level(logging.CRITICAL):
            assert change(db) == nothing
        assert db.restore_sessions(["s"]) == ["s"]
        stored = session(db, "s")
        assert (stored["title"], stored["ended_at"], stored["model"]) == ("Plan", None, "m")
        assert stored["archived_at"] is None
        assert contents(db.get_messages("s")) == ["question", "answer", "marked"]

    def test_it_takes_no_messages(self, db: SessionDB) -> None:
        """Appending needs a session, also when the message is known already."""
        question, _ = thrown_away(db)
        for append in (
            lambda: db.append_message("s", "user", "hi"),
            lambda: db.append_message("s", "user", "marked", external_id="e-1"),
            lambda: db.append_messages("s", [{"role": "user", "content": "hi"}]),
            lambda: db.replace_messages("s", [{"role": "user", "content": "hi"}]),
            lambda: db.create_session("child", "cli", parent_session_id="s"),
        ):
            with pytest.raises(UnknownSession):
                append()
        with pytest.raises(InvalidInput):
            db.rewind_to_message("s", question)
        assert db.get_session("child") is None

    def test_what_was_rewound_stays_so(self, db: SessionDB) -> None:
        """A rewind cannot be undone in the trash."""
        db.create_session("s", "cli")
        question, _ = exchange(db, "s", "question")
        db.rewind_to_message("s", question)
        db.trash_sessions(["s"])
        assert db.restore_rewound("s") == 0
        db.restore_sessions(["s"])
        assert db.get_messages("s") == []
        assert db.restore_rewound("s") == 2

    def test_its_id_is_not_free(self, db: SessionDB) -> None:
        """Creating it again, or recording usage for it, raises an error that names the trash."""
        thrown_away(db)
        for create in (
            lambda: db.create_session("s", "cli"),
            lambda: db.ensure_session("s"),
            lambda: db.update_token_counts("s", input_tokens=1),
            lambda: db.record_auxiliary_usage("s", "title", input_tokens=1),
        ):
            with pytest.raises(InvalidInput, match="trash"):
                create()
        assert db.get_session("s") is None

    def test_it_comes_back_whole(self, db: SessionDB, clock: FrozenClock) -> None:
        """Session, messages, usage, lineage and place in the list."""
        db.create_session("root", "cli")
        exchange(db, "root", "question")
        db.set_session_title("root", "Plan")
        compress(db, clock, "root", "tip")
        exchange(db, "tip", "more")
        db.update_token_counts("tip", input_tokens=5, model="m")

        def everything() -> list[Any]:
            return [db.export_all(), db.list_sessions_rich(), db.get_model_usage("tip")]

        before = everything()
        assert set(db.trash_sessions(["root", "tip", "missing"])) == {"root", "tip"}
        assert db.export_all() == []
        clock.advance(60)
        assert set(db.restore_sessions(["tip", "missing", "root"])) == {"root", "tip"}
        assert everything() == before
        assert db.restore_sessions(["root"]) == []
        assert db.list_trash() == []

    def test_its_title_is_free(self, db: SessionDB) -> None:
        """And comes back with it."""
        thrown_away(db)
        db.restore_sessions(["s"])
        assert db.get_session_title("s") == "Plan"

    def test_its_title_was_taken_meanwhile(self, db: SessionDB) -> None:
        """It gets the next number."""
        thrown_away(db)
        db.create_session("t", "cli")
        assert db.set_session_title("t", "Plan") is True
        db.restore_sessions(["s"])
        assert db.get_session_title("t") == "Plan"
        assert db.get_session_title("s") == "Plan #2"

    def test_a_numbered_title_stays_within_its_length(self, db: SessionDB) -> None:
        """A title of full length still leaves room for the number."""
        title = "x" * 100
        for name in ("s", "t"):
            db.create_session(name, "cli")
        db.set_session_title("s", title)
        db.trash_sessions(["s"])
        db.set_session_title("t", title)
        db.restore_sessions(["s"])
        restored = db.get_session_title("s")
        assert restored is not None
        assert restored != title
        assert db.sanitize_title(restored) == restored

    def test_what_is_in_the_trash(self, db: SessionDB, clock: FrozenClock) -> None:
        """Newest first, with its title and the time it was trashed."""
        for name in ("a", "b"):
            clock.advance(60)
            db.create_session(name, "cli")
            exchange(db, name, f"question of {name}")
            db.set_session_title(name, f"Title of {name}")
        trashed_at = [clock.advance(60)]
        db.trash_sessions(["b"])
        trashed_at.append(clock.advance(60))
        db.trash_sessions(["a"])
        rows = db.list_trash()
        assert ids(rows) == ["a", "b"]
        assert [row["title"] for row in rows] == ["Title of a", "Title of b"]
        assert [row["trashed_at"] for row in rows] == trashed_at[::-1]
        assert [row["message_count"] for row in rows] == [2, 2]
        assert [row["preview"] for row in rows] == ["question of a", "question of b"]

    def test_subagents_go_along(self, db: SessionDB, clock: FrozenClock) -> None:
        """Also those of subagents; a branch stays, as a thread of its own."""
        db.create_session("s", "cli")
        db.create_session("helper", "cli", parent_session_id="s", edge_kind="subagent")
        db.create_session("helper's", "cli", parent_session_id="helper", edge_kind="subagent")
        branch(db, clock, "s", "fork")
        assert set(db.trash_sessions(["s"])) == {"s", "helper", "helper's"}
        assert ids(db.search_sessions()) == ["fork"]
        assert set(db.restore_sessions(["s"])) == {"s", "helper", "helper's"}
        assert ids(db.list_sessions_rich()) == ["fork", "s"]

    def test_a_chain_without_its_tip(self, db: SessionDB, clock: FrozenClock) -> None:
        """The thread goes back to where it was before."""
        db.create_session("a", "cli")
        exchange(db, "a", "question")
        compress(db, clock, "a", "b")
        db.trash_sessions(["b"])
        assert db.get_compression_tip("a") == "a"
        (row,) = db.list_sessions_rich()
        assert (row["id"], row["preview"]) == ("a", "question")
        assert "_lineage_root_id" not in row
        db.restore_sessions(["b"])
        assert db.get_compression_tip("a") == "b"
        assert ids(db.list_sessions_rich()) == ["b"]

    def test_a_chain_without_its_head(self, db: SessionDB, clock: FrozenClock) -> None:
        """The continuation is listed on its own."""
        db.create_session("a", "cli")
        compress(db, clock, "a", "b")
        exchange(db, "b", "question")
        db.trash_sessions(["a"])
        assert db.get_compression_tip("a") == "a"
        assert db.resolve_resume_session_id("a") == "a"
        (row,) = db.list_sessions_rich()
        assert (row["id"], row["preview"]) == ("b", "question")
        assert "_lineage_root_id" not in row
        assert contents(db.get_messages_as_conversation("b", include_ancestors=True)) == [
            "question",
            "ok",
        ]

    def test_emptying_the_trash(self, db: SessionDB, clock: FrozenClock) -> None:
        """Permanently, by time in the trash."""
        for name in ("a", "b", "kept"):
            db.create_session(name, "cli")
            exchange(db, name, "hi")
        db.create_session("child", "cli", parent_session_id="a", edge_kind="branch")
        db.trash_sessions(["a"])
        clock.advance(days=5)
        db.trash_sessions(["b"])
        clock.advance(days=1)
        assert db.purge_trash(older_than_days=3) == 1
        assert ids(db.list_trash()) == ["b"]
        assert db.restore_sessions(["a"]) == []
        clock.advance(days=-3)
        assert db.purge_trash() == 1
        assert db.purge_trash() == 0
        assert db.list_trash() == []
        assert db.create_session("a", "cli") == "a"
        assert db.message_count("a") == 0
        assert session(db, "child")["parent_session_id"] is None
        assert_summary_is_true(db, "kept")
