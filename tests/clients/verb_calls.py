"""Calls the verbs of `hermes_state.SessionDB` and writes down what they return.

    python verb_calls.py FILE [SOURCES]

Without SOURCES, the installed hermes-agent answers. FILE gets for each subject, which has a store
of its own, the calls and their results; times are replaced, and errors are named by their builtin
classes and those of sqlite3.
"""

import json
import logging
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if len(sys.argv) > 2:
    sys.path.insert(0, sys.argv[2])

import hermes_state

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
#: The earliest number that is taken for a time of this run.
_A_TIME = 1e9
CALL = {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": "{}"}}


def call(verb: str, *args: Any, **options: Any) -> Call:
    return verb, args, options


def said(session_id: str, *texts: Any, **options: Any) -> Iterator[Call]:
    yield call("create_session", session_id, options.pop("source", "cli"), **options)
    for number, text in enumerate(texts):
        yield call("append_message", session_id, ("user", "assistant")[number % 2], text)


def creating() -> Iterator[Call]:
    yield call("create_session", "a", "cli", model="m", cwd="/no/w", model_config={"x": 1})
    yield call("create_session", "a", "telegram", model="n", chat_id="5", user_id="u")
    yield call("get_session", "a")
    for options in ({"source": None}, {"source": "cli", "parent_session_id": "missing"}):
        yield call("create_session", "b", **options)
    yield call("create_session", "b", "cli", git_branch="x")
    yield call("create_session", "b", "cli", "m")
    yield call("get_session", "b")
    yield call("ensure_session", "e")
    yield call("get_session", "e")
    yield call("update_system_prompt", "missing", "x")
    yield call("update_session_meta", "a", '{"k": 1}')
    yield call("update_session_meta", "a", "no JSON", "mm")
    yield call("get_session", "a")
    yield call("update_session_meta", "a", None)
    route: dict[str, Any] = {"provider": "p", "base_url": "u", "billing_mode": "b"}
    yield call("update_session_billing_route", "a", **route)
    yield call("update_session_billing_route", "a", provider=None, base_url=None)
    yield call("get_session", "a")
    for reason in ({}, {"reason": "idle"}):
        yield call("promote_to_session_reset", "a", **reason)
        yield call("promote_to_session_reset", "missing", **reason)
        yield call("reopen_session", "a")
        yield call("end_session", "a", "agent_close")
    yield call("promote_to_session_reset", "a", "daily")
    yield call("get_session", "a")
    for verb in ("set_auto_title_if_empty", "set_session_title"):
        for session_id in ("a", "e", "missing"):
            yield call(verb, session_id, "Title")
            yield call("get_session_title", session_id)
    yield call("get_session_by_title", "Title")
    yield call("close")
    yield call("get_compression_fallback_streak", "a")
    yield call("close")


def messages() -> Iterator[Call]:
    yield from said("a", "question 1", "answer 1", [{"type": "text", "text": "part"}], None)
    yield call(
        "append_message", "a", "assistant", "", tool_calls=[CALL], finish_reason="tool_calls"
    )
    yield call("append_message", "a", "tool", "found", tool_name="grep", tool_call_id="c1")
    yield call("append_message", "a", "tool", "stray", tool_call_id="c9")
    yield call(
        "append_message",
        "a",
        "assistant",
        "answer 2",
        reasoning="r",
        reasoning_content="",
        reasoning_details=[1],
        codex_message_items=[{"a": 1}],
        effect_disposition="none",
        platform_message_id=77,
        observed=5,
        timestamp="1700000000.5",
        api_content="sent",
    )
    yield call("append_message", "a", "user", "x", timestamp="yesterday", api_content=5)
    yield call("append_message", "a", "user", "y", timestamp=5.0)
    yield call("append_message", "missing", "user", "x")
    yield call("append_message", "a", None, "x")
    yield call("get_messages", "a")
    yield call("get_messages", "a", limit=2, offset=1)
    yield call("get_messages", "a", limit=0)
    yield call("get_messages", "a", offset=7)
    yield call("get_messages", "missing")
    yield call("get_messages_as_conversation", "a")
    yield call("get_messages_as_conversation", "a", repair_alternation=True)
    for platform_id in (77, "77", 7, None):
        yield call("has_platform_message_id", "a", platform_id)
    yield call("get_session", "a")
    yield call("message_count", "a")
    yield call("message_count")
    given: list[Any] = [
        {"content": "a", "timestamp": 5.0, "message_id": 5},
        {"role": "user", "content": "b", "reasoning": "r", "api_content": "sent"},
        {"role": "assistant", "content": "c", "tool_calls": [CALL, CALL], "reasoning": "r"},
    ]
    yield call("replace_messages", "a", given)
    yield call("get_messages", "a")
    yield call("get_session", "a")
    yield call("replace_messages", "a", [*given, "no message"])
    yield call("get_messages", "a")
    yield call("export_session", "a")
    yield call("export_session", "missing")


def rewinding() -> Iterator[Call]:
    yield from said("a", "one", "two", "three " * 20, "four", [{"no": "text"}])
    for options in ({}, {"limit": 1}):
        yield call("list_recent_user_messages", "a", **options)
    yield call("rewind_to_message", "a", 3)
    yield call("get_messages", "a")
    yield call("get_messages", "a", include_inactive=True)
    yield call("list_recent_user_messages", "a", include_inactive=True)
    yield call("message_count", "a")
    for session_id, message_id in (("a", 2), ("a", 999), ("missing", 1)):
        yield call("rewind_to_message", session_id, message_id)
    yield call("restore_rewound", "a", 3)
    yield call("get_messages", "a")
    for session_id in ("a", "missing", ""):
        yield call("has_archived_messages", session_id)


def compacting() -> Iterator[Call]:
    yield from said("a", "question pineapple", "answer", "more", "last")
    for content in ("more", "question pineapple", None):
        yield call("set_latest_user_api_content", "a", content, "sent")
    given: list[Any] = [
        {"role": "user", "content": "summary", "message_id": 5},
        {"content": "b", "timestamp": 5.0, "tool_calls": [CALL, CALL]},
        {"role": "user", "content": [{"type": "text", "text": "part"}], "observed": True},
    ]
    yield call("archive_and_compact", "a", given)
    yield call("get_messages", "a", include_inactive=True)
    yield call("get_messages", "a")
    yield call("get_session", "a")
    yield call("message_count", "a")
    yield call("has_archived_messages", "a")
    yield call("set_latest_user_api_content", "a", given[2]["content"], "sent")
    yield call("archive_and_compact", "a", ["no message"])
    yield call("archive_and_compact", "missing", [])
    yield call("archive_and_compact", "missing", given)
    yield call("replace_messages", "a", given[:1], active_only=True)
    yield call("get_messages", "a", include_inactive=True)
    yield call("export_session", "a")
    yield call("archive_and_compact", "a", [])
    yield call("get_messages", "a")
    yield call("get_session", "a")
    yield call("get_compression_failure_cooldown", "a")
    yield call("record_compression_failure_cooldown", "a", 5.0, "past")
    yield call("get_compression_failure_cooldown", "a")
    yield call("get_session", "a")
    yield call("clear_compression_failure_cooldown", "a")
    yield call("get_session", "a")
    for session_id in ("missing", ""):
        yield call("record_compression_failure_cooldown", session_id, 5.0)
        yield call("get_compression_failure_cooldown", session_id)
        yield call("set_compression_fallback_streak", session_id, 2)
        yield call("get_compression_fallback_streak", session_id)
    for streak in (3, -2, "4", "x"):
        yield call("set_compression_fallback_streak", "a", streak)
        yield call("get_compression_fallback_streak", "a")
    for holder in ("one", "two", "one"):
        yield call("try_acquire_compression_lock", "a", holder, ttl_seconds=300.0)
    yield call("refresh_compression_lock", "a", "two")
    yield call("release_compression_lock", "a", "two")
    yield call("get_compression_lock_holder", "a")
    yield call("try_acquire_compression_lock", "missing", "one")


def lineage() -> Iterator[Call]:
    yield from said("a", "repeated", "answer", "repeated", cwd="/no/old")
    yield call("set_session_title", "a", "Title A")
    yield call("end_session", "a", "compression")
    yield from said("a2", "repeated", "answer", parent_session_id="a", cwd="/no/new")
    yield call("set_session_title", "a2", "Title A")
    for name, marker in (("fork", "_branched_from"), ("help", "_delegate_from")):
        config = {marker: "a2"}
        yield from said(name, "x", parent_session_id="a2", cwd="/other", model_config=config)
    yield from said("lost", "z", model_config={"_delegate_from": "gone"})
    yield call("list_sessions_rich")
    yield call("list_sessions_rich", order_by_last_active=True, compact_rows=True)
    yield call("list_sessions_rich", include_children=True)
    yield call("list_sessions_rich", project_compression_tips=False)
    for query in ("title", "TITLEA", "a2", "%", "nothing"):
        yield call("list_sessions_rich", order_by_last_active=True, search_query=query)
        yield call("list_sessions_rich", order_by_last_active=True, id_query=query)
        yield call("search_sessions_by_id", query)
    for options in ({"query": " "}, {"query": "a", "limit": 0}, {"query": "help"}):
        yield call("search_sessions_by_id", **options)
    for prefix in ("/no", "/no/", "/n", "/other/"):
        yield call("list_sessions_rich", cwd_prefix=prefix)
        yield call("session_count", cwd_prefix=prefix)
    for options in (
        {},
        {"exclude_children": True},
        {"source": "cli", "min_message_count": 2},
        {"exclude_sources": ["cli"]},
    ):
        yield call("session_count", **options)
    for session_id in ("a", "a2", "fork", "help", "missing", ""):
        yield call("get_compression_tip", session_id)
        yield call("get_conversation_root", session_id)
        yield call("resolve_resume_session_id", session_id)
        yield call("get_resume_conversations", session_id)
        yield call("get_ancestor_display_prefix", session_id)
    yield call("get_compression_lineage", "a2")
    yield call("export_session_lineage", "a")
    yield call("export_session_lineage", "missing")
    yield call("set_session_archived", "a2", True)
    yield call("get_session", "a")
    yield call("list_sessions_rich", archived_only=True, include_archived=True)
    for options in ({}, {"include_archived": True}, {"archived_only": True}):
        yield call("session_count", **options)
    yield call("set_session_archived", "missing", True)
    yield call("delete_session", "a2")
    for session_id in ("help", "fork"):
        yield call("get_session", session_id)
    yield call("delete_sessions", ["a", 5, "missing"])
    yield call("delete_sessions", None)


def chats() -> Iterator[Call]:
    peer = {
        "source": "telegram",
        "session_key": "k",
        "user_id": "u",
        "chat_id": "42",
        "chat_type": "dm",
    }
    for session_id in ("g1", "g2", "g3"):
        yield call("create_session", session_id, **peer)
    for session_id in ("g1", "g2"):
        yield call("append_message", session_id, "user", "hi")
    find = "find_latest_gateway_session_for_peer"
    yield call(find, **peer)
    yield call(find, source="Telegram", session_key="k")
    yield call(find, source="telegram")
    for change in ({}, {"thread_id": ""}, {"thread_id": "9"}, {"user_id": "v"}):
        yield call(find, **(peer | {"session_key": "other"} | change))
    for reason in ("ws_orphan_reap", "session_reset"):
        yield call("reopen_session", "g2")
        yield call("end_session", "g2", reason)
        yield call(find, **peer)
    yield call("list_gateway_sessions")
    other = {"source": "signal", "session_key": "z"}
    yield call("record_gateway_session_peer", "g1", **other, display_name="D")
    yield call("get_session", "g1")
    yield call("record_gateway_session_peer", "g1", **other, origin_json="{}")
    yield call("record_gateway_session_peer", "g1", source="x", session_key="")
    yield call("record_gateway_session_peer", "missing", **peer)
    yield call("get_session", "g1")
    yield call("list_gateway_sessions", platform="SIGNAL", active_only=False)
    for origin in (
        {"platform": "TELEGRAM", "chat_id": 42},
        {"platform": "telegram", "chat_id": "42", "thread_id": ""},
        {"platform": "telegram", "chat_id": "42", "thread_id": "9"},
        {"platform": "telegram", "chat_id": "42", "user_id": "v"},
        {"platform": "", "chat_id": "42"},
    ):
        yield call("find_session_by_origin", **origin)
    for session_id, flag in (("g1", True), ("missing", True), ("g1", False)):
        yield call("set_expiry_finalized", session_id, flag)
        yield call("get_session", "g1")
    entries = {"a": "1", "": "x", "b": "", "c": "{}"}
    yield call("replace_gateway_routing_entries", entries, scope="s")
    yield call("load_gateway_routing_entries", scope="s")
    yield call("load_gateway_routing_entries")
    yield call("save_gateway_routing_entry", "a", "2", scope="s")
    yield call("save_gateway_routing_entry", "", "2")
    yield call("delete_gateway_routing_entries", ["c", "q", ""], scope="s")
    yield call("load_gateway_routing_entries", scope="s")
    yield call("replace_gateway_routing_entries", None, scope="s")
    yield call("load_gateway_routing_entries", scope="s")
    for session_id in ("cron_j_1", "cron_j1_1"):
        yield call("create_session", session_id, "cron")
    for job in ("j", "", "unknown"):
        yield call("list_cron_job_runs", job)
    yield call("update_session_cwd", "g3", "/no/y", " main ", " /no ")
    yield call("update_session_cwd", "g3", "", "other")
    yield call("backfill_repo_roots", {"/no/y": "/other", "": "x"})
    yield call("get_session", "g3")
    yield call("distinct_session_cwds")


def usage() -> Iterator[Call]:
    yield call("create_session", "s", "cli", model="asked for")
    yield call("update_token_counts", "s", model="unused", billing_provider="unused")
    yield call("get_session", "s")
    first = {"model": "used", "billing_provider": "p", "billing_base_url": "u"}
    for route in (first, {"model": "late", "billing_provider": "q"}, {}):
        yield call("update_token_counts", "s", input_tokens=5, api_call_count=1, **route)
        yield call("get_session", "s")
    yield call("record_auxiliary_usage", "s", "title", model="m", input_tokens=3)
    yield call("record_auxiliary_usage", "", "title", model="m")
    yield call("record_auxiliary_usage", "s", "", model="m")
    yield call("record_auxiliary_usage", "new", "title", model="m")
    yield call("get_session", "s")
    yield call("get_session", "new")
    yield call("update_token_counts", "s", input_tokens=50, absolute=True)
    yield call("get_session", "s")


def pruning() -> Iterator[Call]:
    for name, reason in (("p1", "done"), ("p2", "other")):
        yield from said(
            name, "x", model=f"Big-{name}", cwd=f"/no/{name}", user_id=name, chat_id=name
        )
        yield call("set_session_title", name, f"Prune {name}")
        tokens = {"input_tokens": 10 if name == "p1" else 100, "estimated_cost_usd": 0.1}
        yield call("update_token_counts", name, billing_provider=f"Acme{name}", **tokens)
        yield call("end_session", name, reason)
    yield from said("open", "x")
    filters: tuple[dict[str, Any], ...] = (
        {},
        {"title_like": "PRUNE P1"},
        {"title_like": ""},
        {"model_like": "big-p2"},
        {"end_reason": "done"},
        {"user_id": "p1"},
        {"chat_id": "p2"},
        {"chat_type": "dm"},
        {"provider": "acmeP1"},
        {"cwd_prefix": "/no/p2"},
        {"branch_like": "x"},
        {"min_messages": 1},
        {"max_messages": 0},
        {"min_tokens": 50},
        {"max_tokens": 50},
        {"min_cost": 0.05},
        {"max_cost": 0.05},
        {"min_tool_calls": 1},
        {"archived": True},
        {"started_after": 5.0},
        {"started_before": 5.0},
        {"older_than_days": 1},
        {"nonsense": 1},
    )
    for chosen in filters:
        yield call("list_prune_candidates", **chosen)
    for _ in range(2):
        yield call("archive_sessions", title_like="prune p1")
    yield call("list_prune_candidates", archived=False)
    yield call("prune_sessions")
    yield call("prune_sessions", older_than_days=None, user_id="p1")
    yield call("prune_sessions", nonsense=1)
    yield call("get_session", "p1")
    for name in ("e1", "e2"):
        yield call("create_session", name, "cli")
    yield call("delete_session_if_empty", "e1")
    yield call("delete_session_if_empty", "p2")
    yield call("delete_session_if_empty", "")
    yield call("end_session", "e2", "x")
    yield call("count_empty_sessions")
    yield call("delete_empty_sessions")
    yield call("count_empty_sessions")
    yield call("vacuum")
    yield call("optimize_fts")
    yield call("rebuild_fts")


def alternating() -> Iterator[Call]:
    """Transcripts of any form."""
    chance = random.Random(19)
    contents = ("", None, "one", "two", [{"type": "text", "text": "part"}])
    review = "Review the conversation above and consider saving to memory"
    for number in range(200):
        session_id = f"s{number}"
        yield call("create_session", session_id, "cli")
        for _ in range(chance.randint(1, 7)):
            role = chance.choice(("user", "assistant", "assistant", "tool", "system"))
            content = chance.choice((*contents, review) if chance.random() < 0.2 else contents)
            if role == "assistant" and isinstance(content, list):
                content = "answer"  # Hermes loses the text beside structured answers.
            facts: dict[str, Any] = {}
            if role == "assistant":
                if chance.random() < 0.4:
                    ids = [chance.choice("abc") for _ in range(chance.randint(1, 2))]
                    key = chance.choice(("id", "call_id"))
                    facts["tool_calls"] = [{key: one, "function": {"name": "f"}} for one in ids]
                facts["finish_reason"] = chance.choice(
                    (None, "stop", "incomplete", "verification_required", "verify_hook_continue")
                )
                if chance.random() < 0.2:
                    facts[chance.choice(("codex_reasoning_items", "codex_message_items"))] = [1]
                if chance.random() < 0.3:
                    facts["reasoning"] = "r"
                    facts["reasoning_content"] = "rc"
                    facts["reasoning_details"] = [{"a": 1}]
            if role == "tool":
                facts["tool_call_id"] = chance.choice(("a", "b", "c", None))
                facts["tool_name"] = "f"
            if chance.random() < 0.2:
                facts["api_content"] = "sent"
            if chance.random() < 0.2:
                facts["platform_message_id"] = "p"
                facts["observed"] = True
            yield call("append_message", session_id, role, content, **facts)
        yield call("get_messages_as_conversation", session_id, repair_alternation=True)
        yield call("get_messages_as_conversation", session_id)


def handing_over() -> Iterator[Call]:
    yield from said("a", "x", source="telegram", user_id="7")
    yield from said("b", "x", source="telegram", user_id="7")
    for session_id in ("a", "missing"):
        yield call("get_handoff_state", session_id)
        yield call("request_handoff", session_id, "telegram")
    yield call("list_pending_handoffs")
    for verb in ("claim_handoff", "claim_handoff", "complete_handoff"):
        yield call(verb, "a")
        yield call("get_handoff_state", "a")
    yield call("request_handoff", "a", "slack")
    yield call("fail_handoff", "a", "e" * 600)
    yield call("get_handoff_state", "a")
    chat = {"chat_id": 5, "user_id": "7"}
    yield call("is_telegram_topic_mode_enabled", **chat)
    yield call("enable_telegram_topic_mode", **chat, has_topics_enabled=True)
    yield call("is_telegram_topic_mode_enabled", **chat)
    yield call("is_telegram_topic_mode_enabled", chat_id="5", user_id="8")
    topic = {"chat_id": "5", "thread_id": "9"}
    bound = {**topic, "user_id": "7", "session_key": "k"}
    for session_id in ("a", "missing"):
        yield call("bind_telegram_topic", **bound, session_id=session_id)
        yield call("is_telegram_session_linked_to_topic", session_id=session_id)
        yield call("get_telegram_topic_binding_by_session", session_id=session_id)
    yield call("bind_telegram_topic", **{**bound, "thread_id": "10"}, session_id="a")
    yield call("get_telegram_topic_binding", **topic)
    yield call("list_telegram_topic_bindings_for_chat", chat_id="5")
    yield call("list_unlinked_telegram_sessions_for_user", chat_id="5", user_id="7")
    yield call("delete_telegram_topic_binding", **topic)
    yield call("get_telegram_topic_binding", **topic)
    yield call("is_telegram_topic_mode_enabled", **chat)
    for key, value in (("k", 5), ("k", "v")):
        yield call("get_meta", key)
        yield call("set_meta", key, value)
    yield call("get_meta", "k")


def finding() -> Iterator[Call]:
    yield from said("a", "one", "two", "three pineapple", "four", "five")
    yield from said("tip", "later", parent_session_id="a")
    for window in (0, 1, 9):
        yield call("get_messages_around", "a", 3, window=window)
        yield call("get_anchored_view", "a", 3, window=window, bookend=1)
    yield call("append_message", "a", "tool", "found", tool_name="grep", tool_call_id="c1")
    for text in ("six", "seven", ""):
        yield call("append_message", "a", "assistant", text)
    for window in (1, 2, 3):
        for message_id in (5, 7, 8):
            yield call("get_messages_around", "a", message_id, window=window)
            yield call("get_anchored_view", "a", message_id, window=window, bookend=2)
            yield call("get_anchored_view", "a", message_id, window=window, keep_roles=None)
    for session_id, message_id in (("a", 999), ("missing", 1)):
        yield call("get_messages_around", session_id, message_id)
        yield call("get_anchored_view", session_id, message_id)
    yield call("search_sessions")
    yield call("search_sessions", source="cli", limit=1)
    for query in ("", "nothing"):
        yield call("search_messages", query)
    for prefix in ("a", "ti", "missing"):
        yield call("resolve_session_id", prefix)
    yield call("set_session_title", "a", "Plan")
    yield call("set_session_title", "tip", "Plan #2")
    for title in ("Plan", "Plan #2", "plan", "nothing"):
        yield call("resolve_session_by_title", title)
        yield call("get_next_title_in_lineage", title)
    yield call("clear_messages", "a")
    yield call("get_session", "a")
    yield call("get_messages", "a", include_inactive=True)
    yield call("export_all")
    yield call("delete_session", "missing")
    yield call("prune_empty_ghost_sessions")
    yield call("finalize_orphaned_compression_sessions")
    yield call("maybe_auto_prune_and_vacuum")
    yield call("maybe_auto_prune_and_vacuum")


SUBJECTS: tuple[Callable[[], Iterator[Call]], ...] = (
    *(
        creating,
        messages,
        rewinding,
        compacting,
        lineage,
        chats,
        usage,
        pruning,
        alternating,
        handing_over,
        finding,
    ),
)


def without_times(value: Any) -> Any:
    if isinstance(value, float) and value > _A_TIME:
        return "a time"
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_times(one) for one in value]
    return value


def result_of(db: Any, verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    try:
        return without_times(getattr(db, verb)(*args, **options))
    except Exception as error:  # noqa: BLE001 - every error is a result
        kinds = [one for one in type(error).__mro__ if one.__module__ in ("builtins", "sqlite3")]
        return {"raises": sorted(one.__name__ for one in kinds)}


def main() -> None:
    logging.disable(logging.CRITICAL)
    done: dict[str, list[Any]] = {}
    for subject in SUBJECTS:
        with tempfile.TemporaryDirectory() as home:
            os.environ["HERMES_HOME"] = home
            db = hermes_state.SessionDB(Path(home) / "state.db")
            done[subject.__name__] = [
                [f"{verb}{args}{options or ''}", result_of(db, verb, args, options)]
                for verb, args, options in subject()
            ]
            db.close()
    Path(sys.argv[1]).write_text(json.dumps(done), encoding="utf-8")


if __name__ == "__main__":
    main()
