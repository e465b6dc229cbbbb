"""The methods that Hermes 0.19 calls are attributes of the class, where it looks for them."""

from __future__ import annotations

import inspect

import pytest

import hermes_state

VERBS = """
append_message apply_telegram_topic_migration archive_and_compact archive_sessions
backfill_repo_roots bind_telegram_topic claim_handoff clear_compression_failure_cooldown
clear_messages close complete_handoff count_empty_sessions create_session delete_empty_sessions
delete_gateway_routing_entries delete_session delete_session_if_empty delete_sessions
delete_telegram_topic_binding disable_telegram_topic_mode distinct_session_cwds
enable_telegram_topic_mode end_session ensure_session export_all export_session
export_session_lineage fail_handoff finalize_orphaned_compression_sessions
find_latest_gateway_session_for_peer find_session_by_origin get_ancestor_display_prefix
get_anchored_view get_compression_failure_cooldown get_compression_fallback_streak
get_compression_lineage get_compression_lock_holder get_compression_tip get_conversation_root
get_handoff_state get_messages get_messages_around get_messages_as_conversation get_meta
get_next_title_in_lineage get_resume_conversations get_session get_session_by_title
get_session_title get_telegram_topic_binding get_telegram_topic_binding_by_session
has_archived_messages has_platform_message_id import_sessions
is_telegram_session_linked_to_topic is_telegram_topic_mode_enabled list_cron_job_runs
list_gateway_sessions list_pending_handoffs list_prune_candidates list_recent_user_messages
list_sessions_rich list_telegram_topic_bindings_for_chat
list_unlinked_telegram_sessions_for_user load_gateway_routing_entries
maybe_auto_prune_and_vacuum message_count optimize_fts promote_to_session_reset
prune_empty_ghost_sessions prune_sessions rebuild_fts record_auxiliary_usage
record_compression_failure_cooldown record_gateway_session_peer refresh_compression_lock
release_compression_lock reopen_session replace_gateway_routing_entries replace_messages
request_handoff resolve_resume_session_id resolve_session_by_title resolve_session_id
restore_rewound rewind_to_message sanitize_title save_gateway_routing_entry search_messages
search_sessions search_sessions_by_id session_count set_auto_title_if_empty
set_compression_fallback_streak set_expiry_finalized set_latest_user_api_content set_meta
set_session_archived set_session_title try_acquire_compression_lock update_session_billing_route
update_session_cwd update_session_meta update_session_model update_system_prompt
update_token_counts vacuum
""".split()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_an_attribute_of_the_class(verb: str) -> None:
    static = inspect.getattr_static(hermes_state.SessionDB, verb)
    assert callable(getattr(hermes_state.SessionDB, verb))
    assert static is not None


def test_their_number() -> None:
    assert len(set(VERBS)) == 107
    assert hermes_state.SessionDB.MAX_TITLE_LENGTH == 100


@pytest.mark.parametrize(
    ("verb", "parameters"),
    [
        ("search_messages", "query source_filter exclude_sources role_filter limit offset sort"),
        ("get_messages_around", "session_id around_message_id window"),
        ("get_messages", "session_id include_inactive limit offset"),
        ("replace_messages", "session_id messages active_only"),
        ("search_sessions_by_id", "query limit include_archived"),
        ("update_session_cwd", "session_id cwd git_branch git_repo_root"),
        ("set_latest_user_api_content", "session_id content api_content"),
    ],
)
def test_the_order_of_parameters(verb: str, parameters: str) -> None:
    """Methods whose results are reshaped keep their signatures."""
    names = list(inspect.signature(getattr(hermes_state.SessionDB, verb)).parameters)
    assert " ".join(names).startswith(f"self {parameters}")
