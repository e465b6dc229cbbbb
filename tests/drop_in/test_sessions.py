"""Sessions as Hermes 0.19 creates, reads, lists and ends them."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from hermes_sessions_testing.clock import FrozenClock
from hermes_state import SessionDB
from tests.drop_in.conftest import OpenDropIn

#: Columns of ``sessions`` and ``messages`` in schema 22, in order.
SESSION_KEYS = """id source user_id session_key chat_id chat_type thread_id display_name
origin_json expiry_finalized model model_config system_prompt parent_session_id started_at ended_at
end_reason message_count tool_call_count input_tokens output_tokens cache_read_tokens
cache_write_tokens reasoning_tokens cwd git_branch git_repo_root billing_provider billing_base_url
billing_mode estimated_cost_usd actual_cost_usd cost_status cost_source pricing_version title
api_call_count handoff_state handoff_platform handoff_error compression_failure_cooldown_until
compression_failure_error compression_fallback_streak profile_name rewind_count archived""".split()


def keys(record: Any) -> list[str]:
    return list(record)


class TestCreating:
    def test_the_keys_of_a_session(self, db: SessionDB) -> None:
        assert len(SESSION_KEYS) == 46
        assert db.create_session("s", "cli", cwd="/w", model_config={"a": 1}) == "s"
        stored = db.get_session("s")
        assert keys(stored) == SESSION_KEYS
        zeros = ("expiry_finalized", "archived", "rewind_count", "compression_fallback_streak")
        assert [stored[name] for name in zeros] == [0, 0, 0, 0]
        assert stored["model_config"] == '{"a": 1}'
        assert db.get_session("missing") is None
        db.set_session_title("s", "T")
        assert keys(db.get_session_by_title("T")) == SESSION_KEYS

    @pytest.mark.parametrize("name", ["git_branch", "display_name", "nonsense"])
    def test_unknown_keywords(self, db: SessionDB, name: str) -> None:
        with pytest.raises(TypeError):
            db.create_session("s", "cli", **{name: "x"})
        assert db.get_session("s") is None

    def test_a_third_position(self, db: SessionDB) -> None:
        with pytest.raises(TypeError):
            db.create_session("s", "cli", "model")  # type: ignore[misc]

    def test_without_a_source_or_with_an_unknown_parent(self, db: SessionDB) -> None:
        for options in ({"source": None}, {"source": "cli", "parent_session_id": "missing"}):
            with pytest.raises(sqlite3.IntegrityError):
                db.create_session("s", **options)
        assert db.get_session("s") is None

    def test_a_second_call_fills_in(self, db: SessionDB) -> None:
        first: dict[str, Any] = {"session_key": "k", "chat_id": "1"}
        second: dict[str, Any] = {"model": "m", "thread_id": "7", "cwd": "/w", "profile_name": "p"}
        db.create_session("s", "telegram", user_id="u", **first)
        started = db.get_session("s")["started_at"]
        db.create_session("s", "cli", user_id="v", chat_id="2", **second)
        stored = db.get_session("s")
        assert {name: stored[name] for name in first | second} == first | second
        assert (stored["source"], stored["user_id"]) == ("telegram", "u")
        db.create_session("t", "telegram")
        db.create_session("t", "telegram", user_id="u", cwd="")
        assert (db.get_session("t")["user_id"], db.get_session("t")["cwd"]) == (None, None)
        assert stored["started_at"] == started

    def test_ensuring(self, db: SessionDB) -> None:
        assert db.ensure_session("s", "cli", "m", cwd="/w") == "s"
        assert db.get_session("s")["cwd"] == "/w"

    def test_the_prompt_before_the_session(
        self, db: SessionDB, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Hermes stores it first: no effect, and nothing that a user would see."""
        db.update_system_prompt("s", "x")
        assert not caplog.records
        db.create_session("s", "cli")
        db.update_system_prompt("s", "x")
        assert db.get_session("s")["system_prompt"] == "x"

    def test_a_reset(self, db: SessionDB) -> None:
        db.create_session("s", "telegram")
        assert db.promote_to_session_reset("s") is True
        assert db.get_session("s")["end_reason"] == "session_reset"
        assert db.promote_to_session_reset("s", "idle") is False
        db.reopen_session("s")
        db.end_session("s", "ws_orphan_reap")
        assert db.promote_to_session_reset("s", "idle") is True
        assert db.get_session("s")["end_reason"] == "idle"
        assert db.promote_to_session_reset("missing") is False

    def test_a_generated_title(self, db: SessionDB) -> None:
        for session_id in ("a", "b"):
            db.create_session(session_id, "cli")
        assert db.set_auto_title_if_empty("a", "T") is True
        assert db.set_auto_title_if_empty("a", "U") is False
        assert db.set_auto_title_if_empty("missing", "T") is False
        with pytest.raises(ValueError, match="'T' is already in use by session a"):
            db.set_auto_title_if_empty("b", "T")

    def test_a_handle_for_reading(self, db: SessionDB, open_drop_in: OpenDropIn) -> None:
        db.create_session("s", "cli")
        db.append_message("s", "user", "pineapple")
        reader = open_drop_in(read_only=True)
        assert (db.read_only, reader.read_only) == (False, True)
        assert reader.get_session("s")["id"] == "s"
        assert len(reader.search_messages("pineapple")) == 1
        with pytest.raises(sqlite3.OperationalError):
            reader.set_meta("k", "v")

    def test_after_closing(self, db: SessionDB) -> None:
        db.close()
        db.close()
        assert db.get_compression_fallback_streak("s") == 0


class TestLists:
    def test_the_keys_of_a_row(self, db: SessionDB, clock: FrozenClock) -> None:
        db.create_session("old", "cli", system_prompt="long")
        db.append_message("old", "user", "hello")
        clock.advance(5)
        db.create_session("new", "cli")
        clock.advance(5)
        db.append_message("old", "user", "later")
        rows = db.list_sessions_rich()
        assert [row["id"] for row in rows] == ["new", "old"], "the newest start first"
        assert keys(rows[0]) == [*SESSION_KEYS, "last_active", "preview"]
        compact = db.list_sessions_rich(compact_rows=True)
        assert set(keys(rows[0])) - set(keys(compact[0])) == {"system_prompt"}
        active = db.list_sessions_rich(order_by_last_active=True)
        assert [row["id"] for row in active] == ["old", "new"]
        assert keys(db.search_sessions()[0]) == [*SESSION_KEYS, "last_active"]
        assert db.search_sessions(source="cli", limit=1)[0]["id"] == "old"

    def test_a_continued_session(self, db: SessionDB) -> None:
        db.create_session("old", "cli", cwd="/w")
        db.end_session("old", "compression")
        db.create_session("new", "cli", parent_session_id="old", cwd="/x")
        [row] = db.list_sessions_rich()
        assert keys(row) == [*SESSION_KEYS, "last_active", "preview", "_lineage_root_id"]
        assert (row["id"], row["_lineage_root_id"], row["cwd"]) == ("new", "old", "/x")
        assert db.session_count() == 2
        assert db.session_count(exclude_children=True) == 1

    def test_archived_sessions(self, db: SessionDB) -> None:
        for session_id in ("a", "b"):
            db.create_session(session_id, "cli")
        assert db.set_session_archived("a", True) is True
        assert db.set_session_archived("missing", True) is False
        assert [row["id"] for row in db.list_sessions_rich()] == ["b"]
        only = db.list_sessions_rich(archived_only=True, include_archived=True)
        assert [(row["id"], row["archived"]) for row in only] == [("a", 1)]
        assert (db.session_count(), db.session_count(include_archived=True)) == (1, 2)

    def test_a_configuration_that_is_no_json(self, db: SessionDB) -> None:
        db.create_session("s", "cli")
        db.update_session_meta("s", "no JSON")
        assert len(db.list_sessions_rich()) == 1
        assert db.get_compression_tip("s") == "s"
        assert db.get_session("s")["model_config"] == "no JSON"

    def test_where_a_session_goes_on(self, db: SessionDB, clock: FrozenClock) -> None:
        """The deepest continuation with a message; markers and tools are no continuations."""
        db.create_session("a", "cli")
        db.append_message("a", "user", "x")
        plain: list[dict[str, Any]] = [
            {"session_id": "b", "source": "cli", "parent_session_id": "a"},
            {"session_id": "c", "source": "cli", "parent_session_id": "b"},
            {"session_id": "d", "source": "cli", "parent_session_id": "c"},
        ]
        for child in plain:
            clock.advance(1)
            db.create_session(**child)
        assert db.resolve_resume_session_id("a") == "a"
        db.append_message("c", "user", "y")
        assert db.resolve_resume_session_id("a") == "c"
        for number, options in enumerate(
            (
                {"source": "cli", "model_config": {"_branched_from": "c"}},
                {"source": "cli", "model_config": {"_delegate_from": "c"}},
                {"source": "tool"},
            )
        ):
            clock.advance(1)
            db.create_session(f"no-{number}", parent_session_id="c", **options)  # type: ignore[arg-type]
            db.append_message(f"no-{number}", "user", "z")
        assert db.resolve_resume_session_id("a") == "c"
        assert db.resolve_resume_session_id("") == ""
        assert db.resolve_resume_session_id("missing") == "missing"

    def test_delegates_are_hidden(self, db: SessionDB) -> None:
        """Also without a parent; branches are shown, however their marker got there."""
        db.create_session("parent", "cli")
        db.create_session("orphan", "cli", model_config={"_delegate_from": "gone"})
        db.create_session(
            "delegate", "cli", parent_session_id="parent", model_config={"_delegate_from": "parent"}
        )
        db.create_session("fork", "acp", parent_session_id="parent")
        assert {row["id"] for row in db.list_sessions_rich()} == {"parent"}
        db.update_session_meta("fork", '{"_branched_from": "parent"}')
        assert {row["id"] for row in db.list_sessions_rich()} == {"parent", "fork"}
        assert db.session_count(exclude_children=True) == 2
        assert db.session_count() == 4
        assert len(db.list_sessions_rich(include_children=True)) == 4

    def test_a_child_that_is_older_than_the_end(self, db: SessionDB, clock: FrozenClock) -> None:
        """Created while its parent is compressed, it continues it; tools and delegates do not."""
        db.create_session("old", "cli")
        db.create_session("tool", "tool", parent_session_id="old")
        clock.advance(1)
        db.create_session("new", "cli", parent_session_id="old")
        assert db.get_compression_tip("old") == "old"
        db.end_session("old", "compression")
        assert db.get_compression_tip("old") == "new"
        assert [row["id"] for row in db.list_sessions_rich()] == ["new"]

    def test_the_keys_of_other_lists(self, db: SessionDB) -> None:
        db.create_session("cron_j_1", "cron")
        rows = [*db.list_cron_job_runs("j"), *db.search_sessions_by_id("CRON_J")]
        assert [keys(row) for row in rows] == [[*SESSION_KEYS, "last_active", "preview"]] * 2


class TestChats:
    def test_the_keys_of_a_chat(self, db: SessionDB) -> None:
        peer: dict[str, Any] = {"source": "telegram", "session_key": "k", "chat_id": "1"}
        db.create_session("s", chat_type="dm", profile_name="work", **peer)
        db.append_message("s", "user", "hi", platform_message_id=5)
        db.record_gateway_session_peer("s", **peer, chat_type="dm")
        assert keys(db.list_gateway_sessions(platform="Telegram")[0]) == [
            *(*SESSION_KEYS, "last_active"),
        ]
        db.end_session("s", "agent_close")
        found = db.find_latest_gateway_session_for_peer(**peer, chat_type="dm")
        assert type(found) is dict
        assert keys(found) == SESSION_KEYS
        assert db.list_gateway_sessions() == []
        assert db.list_gateway_sessions(active_only=False)[0]["profile_name"] == "work"
        db.set_expiry_finalized("s", True)
        assert db.get_session("s")["expiry_finalized"] == 1
        assert db.find_session_by_origin(platform="telegram", chat_id="1") is None

    def test_a_map(self, db: SessionDB) -> None:
        db.replace_gateway_routing_entries({"k": '{"session_id": "s"}'}, scope="/sessions")
        assert db.load_gateway_routing_entries(scope="/sessions") == {"k": '{"session_id": "s"}'}


class TestPruning:
    def test_candidates(self, db: SessionDB, clock: FrozenClock) -> None:
        for session_id in ("a", "b", "open"):
            db.create_session(session_id, "cli", model="m")
            clock.advance(1)
        db.append_message("a", "user", "later")
        for session_id in ("a", "b"):
            db.end_session(session_id, "done")
        rows = db.list_prune_candidates()
        assert [row["id"] for row in rows] == ["a", "b"], "without a bound, all that ended"
        assert keys(rows[0]) == (
            "id source title model started_at ended_at message_count archived".split()
        )
        assert db.list_prune_candidates(title_like="") == rows
        assert db.list_prune_candidates(older_than_days=1) == []
        assert db.list_prune_candidates(older_than_days=1, started_before=clock() + 1) == rows
        with pytest.raises(TypeError):
            db.list_prune_candidates(nonsense=1)
        assert db.prune_sessions() == 0
        assert db.prune_sessions(older_than_days=None, min_messages=1) == 1
        assert db.prune_sessions(older_than_days=None) == 1
        assert db.session_count() == 1

    def test_several(self, db: SessionDB) -> None:
        for session_id in ("a", "b"):
            db.create_session(session_id, "cli")
        assert db.delete_sessions(None) == db.delete_sessions([]) == 0
        assert db.delete_sessions(["a", 5, None, "missing"]) == 1

    def test_delegates_go_and_branches_stay(self, db: SessionDB) -> None:
        db.create_session("parent", "cli")
        for marker in ("_delegate_from", "_branched_from"):
            config = {marker: "parent"}
            db.create_session(marker, "cli", parent_session_id="parent", model_config=config)
        assert db.delete_session("parent") is True
        assert db.get_session("_delegate_from") is None
        assert db.get_session("_branched_from")["parent_session_id"] is None


class TestUsage:
    def test_the_first_call_decides(self, db: SessionDB) -> None:
        """Its model and provider replace those that were asked for; later ones do not."""
        db.create_session("s", "cli", model="asked for")
        db.update_token_counts("s", model="no usage", billing_provider="nobody")
        stored = db.get_session("s")
        assert (stored["model"], stored["billing_provider"]) == ("asked for", None)
        db.update_token_counts(
            "s", input_tokens=5, model="used", billing_provider="p", api_call_count=1
        )
        db.update_token_counts(
            "s", input_tokens=7, model="other", billing_provider="q", api_call_count=1
        )
        db.update_token_counts("s", input_tokens=1, api_call_count=1)
        stored = db.get_session("s")
        assert (stored["model"], stored["billing_provider"]) == ("used", "p")
        assert (stored["input_tokens"], stored["api_call_count"]) == (13, 3)
        usage = {row["model"]: row["input_tokens"] for row in db.get_model_usage("s")}
        assert usage == {"used": 6, "other": 7}

    def test_without_a_model(self, db: SessionDB) -> None:
        db.create_session("s", "cli")
        db.update_token_counts("s", model="m")
        assert db.get_session("s")["model"] == "m"
        db.create_session("t", "cli")
        db.update_token_counts("t", input_tokens=1)
        assert [row["model"] for row in db.get_model_usage("t")] == ["unknown"]
        db.update_token_counts("t", input_tokens=9, model="m", absolute=True)
        assert len(db.get_model_usage("t")) == 1

    def test_side_calls(self, db: SessionDB) -> None:
        usage: dict[str, Any] = {
            "model": "m",
            "billing_provider": "p",
            "billing_base_url": None,
            "input_tokens": 5,
            "output_tokens": 1,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "reasoning_tokens": 0,
            "estimated_cost_usd": None,
        }
        db.record_auxiliary_usage("", "compression", **usage)
        db.record_auxiliary_usage("s", "", **usage)
        assert db.get_session("s") is None
        db.record_auxiliary_usage("s", "compression", **usage)
        assert db.get_session("s")["source"] == "unknown"
        [row] = db.get_model_usage("s")
        assert (row["task"], row["input_tokens"], row["api_call_count"]) == ("compression", 5, 1)
        assert db.get_session("s")["input_tokens"] == 0
