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
