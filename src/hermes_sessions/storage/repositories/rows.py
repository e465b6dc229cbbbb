"""Columns in the order they are read, and how a row becomes the record callers get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.codec import decode_content, from_json
from hermes_sessions.storage.provider import Row, placeholders

# A scope as SQL: which rows of ``sessions`` whoever asks may see.


def scope_condition(
    scope: Scope, column: Callable[[str], str] = lambda name: name
) -> tuple[str, tuple[Any, ...]]:
    """Return a condition and its parameters; *column* says how a column of the session is written.

    Everything that is set must hold, and a session without the value asked for is not seen.
    """
    parts, params = ["1 = 1"], list[Any]()
    for name, wanted in (("user_id", scope.user_id), ("source", scope.source)):
        if wanted is not None:
            parts.append(f"{column(name)} = ?")
            params.append(wanted)
    if scope.conversation_ids is not None:
        ids = scope.conversation_ids
        marks = placeholders(len(ids))
        parts.append(f"{column('conversation_id')} IN ({marks})" if ids else "1 = 0")
        params.extend(ids)
    return " AND ".join(parts), tuple(params)


Record = dict[str, Any]

#: Columns of a session that callers see: the documented ones, then ours.
SESSION_COLUMNS: Final = [
    "id",
    "source",
    "user_id",
    "model",
    "model_config",
    "system_prompt",
    "parent_session_id",
    "started_at",
    "ended_at",
    "end_reason",
    "message_count",
    "tool_call_count",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "billing_provider",
    "billing_base_url",
    "billing_mode",
    "estimated_cost_usd",
    "actual_cost_usd",
    "cost_status",
    "cost_source",
    "pricing_version",
    "title",
    "api_call_count",
    "handoff_state",
    "handoff_platform",
    "handoff_error",
    "conversation_id",
    "edge_kind",
    "archived_at",
    "pinned_at",
    "rewind_count",
]

#: Columns of a message that callers see: the documented ones, then ours.
MESSAGE_COLUMNS: Final = [
    "id",
    "session_id",
    "role",
    "content",
    "tool_call_id",
    "tool_calls",
    "tool_name",
    "timestamp",
    "token_count",
    "finish_reason",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "codex_reasoning_items",
    "codex_message_items",
    "ordinal",
    "external_id",
    "active",
    "compacted",
]
#: Those that hold text, and those that hold JSON as text; content is either, see ``content_type``.
MESSAGE_TEXTS: Final = [
    "role",
    "tool_call_id",
    "tool_name",
    "finish_reason",
    "reasoning",
    "reasoning_content",
    "external_id",
]
MESSAGE_JSON: Final = [
    "tool_calls",
    "reasoning_details",
    "codex_reasoning_items",
    "codex_message_items",
]
_GIVEN_BY_THE_STORE: Final = ("id", "session_id", "ordinal", "active", "compacted")
#: What a caller says about a message.
MESSAGE_FIELDS: Final = [name for name in MESSAGE_COLUMNS if name not in _GIVEN_BY_THE_STORE]
#: The columns in which that is stored.
STORED_FIELDS: Final = [*MESSAGE_FIELDS, "content_type"]

#: Verbs see a session only while it is not in the trash.
VISIBLE: Final = "trashed_at IS NULL"


def names(columns: list[str] | tuple[str, ...], alias: str = "") -> str:
    """Return a column list for a SELECT, optionally of one table of a join."""
    prefix = f"{alias}." if alias else ""
    return ", ".join(prefix + column for column in columns)


SELECT_SESSION: Final = f"SELECT {names(SESSION_COLUMNS)} FROM sessions"
SELECT_MESSAGE: Final = f"SELECT {names(MESSAGE_COLUMNS)}, content_type FROM messages"
_CONTENT: Final = MESSAGE_COLUMNS.index("content")
_TOOL_CALLS: Final = MESSAGE_COLUMNS.index("tool_calls")


def session_record(row: Row) -> Record:
    """Return the record for a row of `SELECT_SESSION`."""
    return dict(zip(SESSION_COLUMNS, row, strict=True))


def message_record(row: Row) -> Record:
    """Return the record for a row of `SELECT_MESSAGE`, content and tool calls decoded."""
    record = dict(zip(MESSAGE_COLUMNS, row, strict=False))
    content_type = row[-1]
    if content_type is not None:
        record["content"] = decode_content(row[_CONTENT], content_type)
    if row[_TOOL_CALLS] is not None:
        record["tool_calls"] = from_json(row[_TOOL_CALLS], [])
    return record
