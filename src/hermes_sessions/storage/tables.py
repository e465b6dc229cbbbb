"""The tables of a store on a server, declared once; each server renders them in its own types.

Names and columns are those of the SQLite store, which has a longer history to keep up with and
declares its own; a test compares the two.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

#: ``serial``: a generated number. ``name``: text of bounded length that may be part of a key.
Kind = Literal["serial", "name", "text", "real", "integer"]


class Column(NamedTuple):
    """One column; ``references`` names a table whose id it holds."""

    name: str
    kind: Kind
    required: bool = False
    default: int | None = None
    references: str | None = None


class Index(NamedTuple):
    """An index; a unique one allows any number of NULLs."""

    name: str
    columns: tuple[str, ...]
    unique: bool = False


class Table(NamedTuple):
    """One table; ``key`` is its primary key."""

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()


def _columns(kind: Kind, *names: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name in names)


def _counters(*names: str, required: bool = False) -> tuple[Column, ...]:
    return tuple(Column(name, "integer", required=required, default=0) for name in names)


_TOKENS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
_SESSION: Final = Column("session_id", "name", required=True, references="sessions")

SESSIONS: Final = Table(
    "sessions",
    ("id",),
    (
        Column("id", "name", required=True),
        Column("source", "text", required=True),
        *_columns("text", "user_id", "model", "model_config", "system_prompt"),
        Column("parent_session_id", "name", references="sessions"),
        Column("started_at", "real", required=True),
        Column("ended_at", "real"),
        Column("end_reason", "text"),
        *_counters("message_count", "tool_call_count", *_TOKENS),
        *_columns("text", "billing_provider", "billing_base_url", "billing_mode"),
        *_columns("real", "estimated_cost_usd", "actual_cost_usd"),
        *_columns("text", "cost_status", "cost_source", "pricing_version"),
        Column("title", "name"),
        *_counters("api_call_count"),
        *_columns("text", "handoff_state", "handoff_platform", "handoff_error"),
        Column("conversation_id", "name"),
        Column("edge_kind", "text"),
        *_columns("name", "chain_id", "tip_id"),
        *_counters("listed", required=True),
        Column("last_active", "real"),
        Column("preview", "text"),
        Column("next_ordinal", "integer", required=True, default=1),
        *_counters("rewind_count", required=True),
        *_columns("real", "archived_at", "pinned_at", "trashed_at"),
        *_columns("text", "trashed_title", "extra"),
    ),
    (
        Index("idx_sessions_parent", ("parent_session_id",)),
        Index("idx_sessions_started", ("started_at",)),
        Index("idx_sessions_title_unique", ("title",), unique=True),
        Index("idx_sessions_title_key", ("title_key",)),
        Index("idx_sessions_conversation", ("conversation_id",)),
        Index("idx_sessions_active", ("last_active", "started_at", "id")),
        Index("idx_sessions_user", ("user_id", "last_active", "started_at", "id")),
        Index("idx_sessions_trashed", ("trashed_at",)),
    ),
)

MESSAGES: Final = Table(
    "messages",
    ("id",),
    (
        Column("id", "serial"),
        _SESSION,
        Column("role", "text", required=True),
        *_columns("text", "content", "tool_call_id", "tool_calls", "tool_name"),
        Column("timestamp", "real", required=True),
        Column("token_count", "integer"),
        *_columns("text", "finish_reason", "reasoning", "reasoning_content", "reasoning_details"),
        *_columns("text", "codex_reasoning_items", "codex_message_items"),
        Column("ordinal", "integer"),
        Column("content_type", "text"),
        Column("external_id", "name"),
        Column("active", "integer", required=True, default=1),
        *_counters("compacted", required=True),
        Column("rewind_id", "integer"),
        Column("extra", "text"),
    ),
    (
        Index("idx_messages_ordinal", ("session_id", "ordinal"), unique=True),
        Index("idx_messages_external", ("session_id", "external_id"), unique=True),
    ),
)

TABLES: Final = (
    SESSIONS,
    MESSAGES,
    Table("state_meta", ("key",), (Column("key", "name", required=True), Column("value", "text"))),
    Table(
        "rewinds",
        ("id",),
        (
            Column("id", "serial"),
            _SESSION,
            Column("target_message_id", "integer", required=True),
            Column("target_ordinal", "integer", required=True),
            Column("hidden_count", "integer", required=True),
            Column("head_ordinal", "integer", required=True),
            Column("rewound_at", "real", required=True),
            Column("restored_at", "real"),
        ),
        (Index("idx_rewinds_session", ("session_id",)),),
    ),
    Table(
        "session_model_usage",
        ("session_id", "route_key"),
        (
            _SESSION,
            Column("route_key", "name", required=True),
            *_columns(
                "text", "model", "billing_provider", "billing_base_url", "billing_mode", "task"
            ),
            *_counters(*_TOKENS, "api_call_count", required=True),
            *_columns("real", "estimated_cost_usd", "actual_cost_usd"),
            Column("first_at", "real", required=True),
            Column("last_at", "real", required=True),
        ),
    ),
    Table(
        "compression_locks",
        ("session_id",),
        (
            Column("session_id", "name", required=True),
            Column("holder", "text", required=True),
            Column("acquired_at", "real", required=True),
            Column("expires_at", "real", required=True),
        ),
    ),
    Table(
        "foreign_rows",
        ("id",),
        (
            Column("id", "serial"),
            Column("origin", "text", required=True),
            Column("table_name", "name", required=True),
            Column("row_key", "name", required=True),
            Column("row", "text", required=True),
        ),
        (Index("idx_foreign_rows_key", ("table_name", "row_key"), unique=True),),
    ),
)

#: Who holds what, and what happens next: see docs/decisions/0014-lifecycle.md. Times are seconds
#: since the epoch; ids of sessions are no foreign keys, because a lane outlives its session.
LIFECYCLE_TABLES: Final = (
    Table(
        "lanes",
        ("id",),
        (
            Column("id", "serial"),
            Column("namespace", "name", required=True),
            # A key can be longer than what an index takes: unique by its digest.
            Column("key_hash", "name", required=True),
            Column("session_key", "text", required=True),
            *_columns("text", "profile", "platform", "chat_type", "chat_id"),
            *_columns("text", "thread_id", "participant_id"),
            Column("session_id", "name", required=True),
            Column("created_at", "real", required=True),
            Column("updated_at", "real", required=True),
            # active, resume_pending or suspended
            Column("status", "name", required=True),
            Column("status_reason", "text"),
            Column("status_at", "real"),
            *_columns("text", "origin", "display_name"),
            # Handed out once, then NULL.
            Column("notice", "text"),
            *_counters("last_prompt_tokens", required=True),
            # Starts of a gateway that found the lane with an unfinished turn, without a good one
            # since.
            *_counters("unfinished_starts", required=True),
            Column("finalized_at", "real"),
            *_counters("finalize_attempts", required=True),
            Column("finalize_error", "text"),
        ),
        (
            Index("idx_lanes_key", ("namespace", "key_hash"), unique=True),
            Index("idx_lanes_session", ("session_id",)),
            Index("idx_lanes_updated", ("namespace", "updated_at", "id")),
            Index("idx_lanes_unfinalized", ("namespace", "finalized_at", "updated_at")),
            Index("idx_lanes_status", ("namespace", "status")),
        ),
    ),
    Table(
        "lane_transitions",
        ("id",),
        (
            Column("id", "serial"),
            Column("lane_id", "integer", required=True),
            Column("at", "real", required=True),
            Column("action", "text", required=True),
            *_columns("text", "reason", "actor", "from_session_id", "to_session_id"),
            # What the decision was made from, as JSON.
            *_columns("text", "policy", "facts"),
        ),
        (Index("idx_lane_transitions_lane", ("lane_id", "id")),),
    ),
    Table(
        "leases",
        ("chain_id",),
        (
            Column("chain_id", "name", required=True),
            # Grows with every holder and is never given out again.
            Column("token", "integer", required=True),
            # NULL: free.
            Column("holder", "text"),
            Column("process_id", "name"),
            # When it was taken or renewed, and how long that is good for.
            *_columns("real", "taken_at", "expires_at"),
        ),
        (Index("idx_leases_process", ("process_id",)),),
    ),
    Table(
        "turns",
        ("id",),
        (
            Column("id", "serial"),
            Column("lane_id", "integer"),
            Column("chain_id", "name", required=True),
            Column("session_id", "name", required=True),
            Column("process_id", "name", required=True),
            Column("token", "integer", required=True),
            Column("attempt", "integer", required=True, default=1),
            Column("started_at", "real", required=True),
            # NULL: runs, or its process died.
            Column("ended_at", "real"),
            *_columns("text", "outcome", "detail"),
        ),
        (
            Index("idx_turns_lane", ("lane_id", "id")),
            Index("idx_turns_process", ("process_id", "ended_at")),
            Index("idx_turns_chain", ("chain_id", "ended_at")),
        ),
    ),
    Table(
        "processes",
        ("id",),
        (
            Column("id", "name", required=True),
            Column("namespace", "name", required=True),
            *_columns("text", "kind", "host"),
            Column("pid", "integer"),
            Column("version", "text"),
            Column("started_at", "real", required=True),
            Column("heartbeat_at", "real", required=True),
            Column("ended_at", "real"),
            *_counters("clean", required=True),
        ),
        (Index("idx_processes_living", ("namespace", "ended_at")),),
    ),
    Table(
        "mailbox",
        ("id",),
        (
            Column("id", "serial"),
            Column("lane_id", "integer", required=True),
            # What tells a message that is delivered again from a new one.
            Column("dedupe", "name"),
            Column("kind", "name", required=True),
            Column("sender", "text"),
            *_columns("text", "text", "payload"),
            Column("status", "name", required=True),
            Column("turn_id", "integer"),
            Column("received_at", "real", required=True),
            Column("finished_at", "real"),
            Column("reason", "text"),
        ),
        (
            Index("idx_mailbox_dedupe", ("dedupe",), unique=True),
            Index("idx_mailbox_lane", ("lane_id", "status", "id")),
            Index("idx_mailbox_status", ("status", "id")),
            Index("idx_mailbox_turn", ("turn_id",)),
        ),
    ),
    Table(
        "identities",
        ("platform", "alias"),
        (
            Column("platform", "name", required=True),
            Column("alias", "name", required=True),
            Column("canonical", "name", required=True),
            Column("decided_at", "real", required=True),
        ),
    ),
)
#: The token that holds a session's chain, NULL when nobody does: what an append compares.
FENCE: Final = Column("fence", "integer")

#: What a gateway must not forget: see docs/decisions/0015-gateway.md.
GATEWAY_TABLES: Final = (
    Table(
        "outbox",
        ("id",),
        (
            Column("id", "serial"),
            Column("namespace", "name", required=True),
            *_columns("integer", "lane_id", "turn_id"),
            Column("platform", "name", required=True),
            # Replies to one chat are sent in order.
            Column("chat_hash", "name", required=True),
            Column("target", "text", required=True),
            Column("text", "text", required=True),
            # waiting, sending, sent or dead
            Column("status", "name", required=True),
            *_counters("attempts", "parts_sent", required=True),
            # The message that was shown while the reply was being written.
            Column("draft_id", "text"),
            Column("sent_ids", "text"),
            Column("next_at", "real", required=True),
            Column("claimed_by", "name"),
            Column("claimed_until", "real"),
            Column("error", "text"),
            Column("created_at", "real", required=True),
            Column("finished_at", "real"),
        ),
        (
            Index("idx_outbox_due", ("namespace", "status", "next_at")),
            Index("idx_outbox_chat", ("chat_hash", "status", "id")),
            Index("idx_outbox_turn", ("turn_id",)),
        ),
    ),
    Table(
        "senders",
        ("namespace", "platform", "sender_id"),
        (
            Column("namespace", "name", required=True),
            Column("platform", "name", required=True),
            Column("sender_id", "name", required=True),
            # pending, allowed or blocked
            Column("status", "name", required=True),
            *_columns("text", "name", "code_hash"),
            Column("expires_at", "real"),
            *_counters("attempts", required=True),
            Column("created_at", "real", required=True),
            Column("decided_at", "real"),
        ),
        (Index("idx_senders_status", ("namespace", "status")),),
    ),
    Table(
        "topic_modes",
        ("chat_id",),
        (
            Column("chat_id", "name", required=True),
            Column("user_id", "name", required=True),
            Column("enabled", "integer", required=True, default=1),
            *_columns("integer", "has_topics_enabled", "allows_users_to_create_topics"),
            Column("activated_at", "real", required=True),
            Column("updated_at", "real", required=True),
        ),
    ),
    Table(
        "topics",
        ("chat_id", "thread_id"),
        (
            Column("chat_id", "name", required=True),
            Column("thread_id", "name", required=True),
            Column("user_id", "name", required=True),
            Column("session_key", "text", required=True),
            Column("session_id", "name", required=True),
            Column("managed_mode", "text", required=True),
            Column("linked_at", "real", required=True),
            Column("updated_at", "real", required=True),
        ),
        (Index("idx_topics_session", ("session_id",), unique=True),),
    ),
)

#: What erasing needs to know, and what it leaves behind: see docs/erasure.md.
ERASURE_TABLES: Final = (
    Table(
        "erasures",
        ("id",),
        (
            Column("id", "name", required=True),
            # user, chat or session
            Column("kind", "name", required=True),
            Column("platform", "name"),
            # Of the id that was given, with the id of the receipt: nobody can be read from it.
            Column("digest", "name", required=True),
            # pending or done
            Column("status", "name", required=True),
            Column("requested_at", "real", required=True),
            Column("finished_at", "real"),
            # Who and what it is about, as JSON; NULL as soon as nothing needs it any more.
            Column("targets", "text"),
            # What became of it in each place, as JSON.
            Column("steps", "text"),
        ),
        (Index("idx_erasures_requested", ("requested_at", "id")),),
    ),
    # Who wrote a message in a room that several people share, by its external id.
    Table(
        "authors",
        ("session_id", "external_id"),
        (
            Column("session_id", "name", required=True),
            Column("external_id", "name", required=True),
            Column("platform", "name", required=True),
            Column("author", "name", required=True),
        ),
        (Index("idx_authors_author", ("author",)),),
    ),
)

#: What nothing may delete: see docs/retention.md.
HOLD_TABLES: Final = (
    Table(
        "holds",
        ("session_id",),
        (
            Column("session_id", "name", required=True),
            Column("reason", "text", required=True),
            Column("held_at", "real", required=True),
        ),
    ),
)

#: Sessions that other programs changed; triggers write it, see ``repositories.foreign_changes``.
STALE_TABLES: Final = (
    Table(
        "stale_sessions",
        ("seq",),
        (Column("seq", "serial"), Column("session_id", "name", required=True)),
        (Index("idx_stale_sessions_session", ("session_id",)),),
    ),
)

#: Kept beside the search index, which each server declares itself.
SEARCH_TABLES: Final = (
    Table(
        "search_state",
        ("segmenter",),
        (
            Column("segmenter", "integer", required=True),
            Column("indexed_through", "integer", required=True),
            Column("newest", "real", required=True, default=0),
            *_counters("ordered_from", required=True),
            Column("disorder", "real", required=True, default=0),
        ),
    ),
    Table(
        "search_queue",
        ("seq",),
        (Column("seq", "serial"), Column("message_id", "integer", required=True)),
        (Index("idx_search_queue_message", ("message_id",)),),
    ),
    Table(
        "search_titles",
        ("number",),
        (
            Column("number", "serial"),
            Column("session_id", "name", required=True),
            Column("stale", "integer", required=True, default=1),
        ),
        (
            Index("idx_search_titles_session", ("session_id",), unique=True),
            Index("idx_search_titles_stale", ("stale",)),
        ),
    ),
)

#: What only servers need: the steps taken, and which units of work were committed.
SERVER_TABLES: Final = (
    Table(
        "store_migrations",
        ("name",),
        (
            Column("name", "name", required=True),
            Column("applied_at", "real", required=True),
            # What a program must know to write a store that has taken this step.
            Column("writer_level", "integer", required=True),
        ),
    ),
    Table(
        "write_marks",
        ("mark",),
        (
            Column("mark", "name", required=True),
            Column("message_id", "integer"),
            Column("marked_at", "real", required=True),
        ),
    ),
)
