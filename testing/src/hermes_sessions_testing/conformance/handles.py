"""Handles: several on one store, closed ones, and read-only ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermes_sessions.errors import StoreClosed, StoreReadOnly
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from hermes_sessions_testing.conformance.fixtures import OpenStore
from hermes_sessions_testing.conformance.helpers import (
    bases_of,
    compress,
    contents,
    exchange,
    ids,
    session,
)

MESSAGE = {"role": "user", "content": "hi"}

READS: dict[str, Callable[[SessionDB], Any]] = {
    "get_session": lambda db: db.get_session("s"),
    "resolve_session_id": lambda db: db.resolve_session_id("s"),
    "find_session_ids": lambda db: db.find_session_ids("s"),
    "get_session_title": lambda db: db.get_session_title("s"),
    "get_session_by_title": lambda db: db.get_session_by_title("T"),
    "resolve_session_by_title": lambda db: db.resolve_session_by_title("T"),
    "get_next_title_in_lineage": lambda db: db.get_next_title_in_lineage("T"),
    "get_compression_tip": lambda db: db.get_compression_tip("s"),
    "resolve_resume_session_id": lambda db: db.resolve_resume_session_id("s"),
    "get_conversation_root": lambda db: db.get_conversation_root("s"),
    "list_conversation": lambda db: db.list_conversation("s"),
    "get_compression_lineage": lambda db: db.get_compression_lineage("s"),
    "list_sessions_rich": lambda db: db.list_sessions_rich(),
    "search_sessions": lambda db: db.search_sessions(),
    "session_count": lambda db: db.session_count(),
    "message_count": lambda db: db.message_count(),
    "get_stats": lambda db: db.get_stats(),
    "get_messages": lambda db: db.get_messages("s"),
    "get_messages_as_conversation": lambda db: db.get_messages_as_conversation("s"),
    "get_messages_around": lambda db: db.get_messages_around("s", 1),
    "get_anchored_view": lambda db: db.get_anchored_view("s", 1),
    "has_external_id": lambda db: db.has_external_id("s", "e"),
    "list_rewinds": lambda db: db.list_rewinds("s"),
    "list_recent_user_messages": lambda db: db.list_recent_user_messages("s"),
    "get_model_usage": lambda db: db.get_model_usage("s"),
    "list_trash": lambda db: db.list_trash(),
    "list_prune_candidates": lambda db: db.list_prune_candidates(0),
    "search_messages": lambda db: db.search_messages("question"),
    "search": lambda db: db.search("question").hits,
    "search_index_status": lambda db: sorted(db.search_index_status()),
    "export_session": lambda db: db.export_session("s"),
    "export_session_lineage": lambda db: db.export_session_lineage("s"),
    "export_all": lambda db: db.export_all(),
    "iter_export": lambda db: list(db.iter_export()),
    "get_meta": lambda db: db.get_meta("k"),
    "distinct_session_cwds": lambda db: db.distinct_session_cwds(),
    "search_sessions_by_id": lambda db: db.search_sessions_by_id("s"),
    "list_cron_job_runs": lambda db: db.list_cron_job_runs("j"),
    "list_gateway_sessions": lambda db: db.list_gateway_sessions(),
    "find_latest_gateway_session": lambda db: db.find_latest_gateway_session_for_peer(
        source="t", session_key="k"
    ),
    "find_session_by_origin": lambda db: db.find_session_by_origin(platform="t", chat_id="1"),
    "load_gateway_routing_entries": lambda db: db.load_gateway_routing_entries(),
    "has_platform_message_id": lambda db: db.has_platform_message_id("s", "p"),
    "has_archived_messages": lambda db: db.has_archived_messages("s"),
    "get_compression_failure_cooldown": lambda db: db.get_compression_failure_cooldown("s"),
    "get_compression_fallback_streak": lambda db: db.get_compression_fallback_streak("s"),
    "count_empty_sessions": lambda db: db.count_empty_sessions(),
    "get_compression_lock_holder": lambda db: db.get_compression_lock_holder("s"),
}

WRITES: dict[str, Callable[[SessionDB], Any]] = {
    "create_session": lambda db: db.create_session("new", "cli"),
    "create_session again": lambda db: db.create_session("s", "cli"),
    "ensure_session": lambda db: db.ensure_session("new"),
    "end_session": lambda db: db.end_session("s", "done"),
    "reopen_session": lambda db: db.reopen_session("s"),
    "promote_to_session_reset": lambda db: db.promote_to_session_reset("s"),
    "update_system_prompt": lambda db: db.update_system_prompt("s", "x"),
    "update_session_model": lambda db: db.update_session_model("s", "x"),
    "set_session_title": lambda db: db.set_session_title("s", "x"),
    "set_auto_title_if_empty": lambda db: db.set_auto_title_if_empty("s", "x"),
    "finalize_orphans": lambda db: db.finalize_orphaned_compression_sessions(),
    "append_message": lambda db: db.append_message("s", "user", "hi"),
    "append_messages": lambda db: db.append_messages("s", [MESSAGE]),
    "replace_messages": lambda db: db.replace_messages("s", [MESSAGE]),
    "clear_messages": lambda db: db.clear_messages("s"),
    "rewind_to_message": lambda db: db.rewind_to_message("s", 1),
    "restore_rewound": lambda db: db.restore_rewound("s"),
    "update_token_counts": lambda db: db.update_token_counts("s", input_tokens=1),
    "record_auxiliary_usage": lambda db: db.record_auxiliary_usage("s", "title"),
    "set_session_archived": lambda db: db.set_session_archived("s"),
    "trash_sessions": lambda db: db.trash_sessions(["s"]),
    "restore_sessions": lambda db: db.restore_sessions(["s"]),
    "delete_session": lambda db: db.delete_session("s"),
    "delete_sessions": lambda db: db.delete_sessions(["s"]),
    "prune_sessions": lambda db: db.prune_sessions(0),
    "import_sessions": lambda db: db.import_sessions(
        [{"id": "new", "source": "cli", "started_at": 1.0, "messages": []}]
    ),
    "optimize_search": lambda db: db.optimize_search(rebuild=True),
    "set_meta": lambda db: db.set_meta("k", "v"),
    "try_acquire_compression_lock": lambda db: db.try_acquire_compression_lock("s", "a"),
    "refresh_compression_lock": lambda db: db.refresh_compression_lock("s", "a"),
    "release_compression_lock": lambda db: db.release_compression_lock("s", "a"),
    "update_session_cwd": lambda db: db.update_session_cwd("s", "/no/w"),
    "backfill_repo_roots": lambda db: db.backfill_repo_roots({"/no/w": "/no"}),
    "record_gateway_session_peer": lambda db: db.record_gateway_session_peer(
        "s", source="t", session_key="k"
    ),
    "set_expiry_finalized": lambda db: db.set_expiry_finalized("s"),
    "replace_gateway_routing_entries": lambda db: db.replace_gateway_routing_entries({"a": "1"}),
    "save_gateway_routing_entry": lambda db: db.save_gateway_routing_entry("a", "1"),
    "delete_gateway_routing_entries": lambda db: db.delete_gateway_routing_entries(["a"]),
    "update_session_meta": lambda db: db.update_session_meta("s", "{}"),
    "update_session_billing_route": lambda db: db.update_session_billing_route(
        "s", provider="p", base_url=None
    ),
    "archive_and_compact": lambda db: db.archive_and_compact("s", [MESSAGE]),
    "set_latest_user_api_content": lambda db: db.set_latest_user_api_content("s", "hi", "x"),
    "archive_sessions": lambda db: db.archive_sessions(),
    "delete_session_if_empty": lambda db: db.delete_session_if_empty("s"),
    "record_compression_failure_cooldown": lambda db: db.record_compression_failure_cooldown(
        "s", 2e9
    ),
    "clear_compression_failure_cooldown": lambda db: db.clear_compression_failure_cooldown("s"),
    "set_compression_fallback_streak": lambda db: db.set_compression_fallback_streak("s", 1),
    "vacuum": lambda db: db.vacuum(),
}


def verbs(table: dict[str, Callable[[SessionDB], Any]]) -> pytest.MarkDecorator:
    """Run a test once per method of the table."""
    return pytest.mark.parametrize("verb", table.values(), ids=table)


class TestClosing:
    """A closed handle says so."""

    def test_closing_twice(self, db: SessionDB) -> None:
        """Behaviour 9: the second close does nothing."""
        db.create_session("s", "cli")
        db.close()
        db.close()

    def test_a_handle_is_a_context(self, open_another: OpenStore) -> None:
        """Behaviour 9: leaving the `with` block closes the handle."""
        with open_another() as handle:
            handle.create_session("s", "cli")
        with pytest.raises(StoreClosed):
            handle.get_session("s")

    @verbs(READS | WRITES)
    def test_a_closed_handle(self, db: SessionDB, verb: Callable[[SessionDB], Any]) -> None:
        """Every method raises the same error, which callers of the documented API catch."""
        db.close()
        with pytest.raises(StoreClosed) as raised:
            verb(db)
        assert "sqlite3.ProgrammingError" in bases_of(raised.value)

    def test_what_a_store_says_about_itself(self, db: SessionDB) -> None:
        """`describe` returns the provider's name and other facts, by name."""
        facts = db.describe()
        assert facts["provider"] == db.provider.name
        assert all(isinstance(name, str) for name in facts)


class TestSecondHandle:
    """Handles on one store see one store."""

    def test_what_one_writes_the_other_reads(
        self, db: SessionDB, open_another: OpenStore, clock: FrozenClock
    ) -> None:
        """A write is visible in other handles at once, in both directions."""
        other = open_another()
        db.create_session("s", "cli")
        exchange(other, "s", "question", "answer")
        assert contents(db.get_messages("s")) == ["question", "answer"]
        compress(db, clock, "s", "tip")
        assert other.get_compression_tip("s") == "tip"
        assert ids(other.list_sessions_rich()) == ["tip"]
        other.trash_sessions(["tip"])
        assert ids(db.list_sessions_rich()) == ["s"]
        db.delete_session("s")
        assert other.get_session("s") is None
        other.set_meta("k", "v")
        assert db.get_meta("k") == "v"

    def test_closing_one_leaves_the_other(self, db: SessionDB, open_another: OpenStore) -> None:
        """Closing one handle does not close others."""
        other = open_another()
        db.create_session("s", "cli")
        db.close()
        exchange(other, "s", "question")
        assert other.message_count("s") == 2
        with pytest.raises(StoreClosed):
            db.get_session("s")

    def test_what_is_stored_outlives_every_handle(
        self, db: SessionDB, open_another: OpenStore
    ) -> None:
        """Data stays after the last handle is closed."""
        keeper = open_another()
        db.create_session("s", "cli")
        added = exchange(db, "s", "question", "answer")
        before = db.export_all()
        db.close()
        keeper.close()
        reopened = open_another()
        assert reopened.export_all() == before
        assert reopened.append_message("s", "user", "more") > max(added)

    def test_limits_belong_to_a_handle(self, db: SessionDB, open_another: OpenStore) -> None:
        """A message above one handle's limit can be written by another handle and read by both."""
        limited = open_another(max_message_bytes=100)
        db.create_session("s", "cli")
        db.append_message("s", "user", "x" * 1_000)
        assert len(limited.get_messages("s")[0]["content"]) == 1_000


class TestReadOnly:
    """A read-only handle cannot write."""

    @verbs(READS)
    def test_reading(
        self, db: SessionDB, open_another: OpenStore, verb: Callable[[SessionDB], Any]
    ) -> None:
        """Behaviour 102: every reader gives what it gives on a writing handle."""
        db.create_session("s", "cli")
        exchange(db, "s", "question")
        db.set_session_title("s", "T")
        reader = open_another(read_only=True)
        read, expected = verb(reader), verb(db)
        if isinstance(read, dict):
            read.pop("size_bytes", None)
            expected.pop("size_bytes", None)
        assert read == expected

    @verbs(WRITES)
    def test_writing(
        self, db: SessionDB, open_another: OpenStore, verb: Callable[[SessionDB], Any]
    ) -> None:
        """Behaviour 102: every writer raises an OperationalError and changes nothing."""
        db.create_session("s", "cli")
        exchange(db, "s", "question")
        db.end_session("s", "agent_close")
        before = (session(db, "s"), db.export_all(), db.session_count())
        reader = open_another(read_only=True)
        with pytest.raises(StoreReadOnly) as raised:
            verb(reader)
        assert "sqlite3.OperationalError" in bases_of(raised.value)
        assert (session(db, "s"), db.export_all(), db.session_count()) == before

    def test_a_reader_sees_what_others_write(self, db: SessionDB, open_another: OpenStore) -> None:
        """Behaviour 102: it sees current data, not a snapshot of when it was opened."""
        db.create_session("s", "cli")
        reader = open_another(read_only=True)
        exchange(db, "s", "question", "answer")
        assert contents(reader.get_messages("s")) == ["question", "answer"]
        assert reader.provider.read_only is True
        assert db.provider.read_only is False

    def test_housekeeping_reports(self, db: SessionDB, open_another: OpenStore) -> None:
        """Behaviours 77 and 102: it never raises."""
        db.create_session("s", "cli")
        assert "error" in open_another(read_only=True).maybe_auto_prune_and_vacuum()
