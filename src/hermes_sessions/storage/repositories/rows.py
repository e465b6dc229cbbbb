"""Lists of columns in reading order, and the conversion of rows to records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.codec import decode_content, decode_value, from_json
from hermes_sessions.storage.provider import Row, placeholders
from hermes_sessions.storage.tables import MESSAGES, SESSIONS, given, names_of

if TYPE_CHECKING:
    from hermes_sessions.storage.records import MessageRecord, Metadata, SessionRecord


def scope_condition(
    scope: Scope, column: Callable[[str], str] = lambda name: name
) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL condition and parameters for the sessions that a scope may see.

    *column* returns the SQL of a session's column. All limits that are set must match; NULL matches
    none.
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

#: Columns that callers see: the documented ones, then ours.
SESSION_COLUMNS: Final = names_of(SESSIONS, "given", "shown")
MESSAGE_COLUMNS: Final = names_of(MESSAGES, "given", "shown")
#: Columns of an export, which omits the last ones when they are empty.
EXPORTED_SESSION_COLUMNS: Final = [*SESSION_COLUMNS, *names_of(SESSIONS, "exported")]
EXPORTED_MESSAGE_COLUMNS: Final = [*MESSAGE_COLUMNS, *names_of(MESSAGES, "exported")]
#: Fields of a message that callers give; among these, texts, JSON stored as text, and values.
MESSAGE_FIELDS: Final = names_of(MESSAGES, "given")
MESSAGE_TEXTS: Final = given(MESSAGES, "text")
MESSAGE_JSON: Final = given(MESSAGES, "json")
MESSAGE_VALUES: Final = given(MESSAGES, "value")
#: Fields that only messages of an assistant have.
ASSISTANT_FIELDS: Final = [column.name for column in MESSAGES.columns if column.assistant_only]
#: The columns that store these fields; ``content_type`` is the encoding of the content.
STORED_FIELDS: Final = [*MESSAGE_FIELDS, "content_type"]

#: Where a session works; the children of one person's sessions work there, too.
PLACE_COLUMNS: Final = ("cwd", "git_branch", "git_repo_root", "workspace_id")
#: Columns that a continuation by compression has from the session that it continues.
THREAD_COLUMNS: Final = ("archived_at", "pinned_at", "metadata", "tags", *PLACE_COLUMNS)
#: Condition for sessions that are not in the trash.
VISIBLE: Final = "trashed_at IS NULL"


def like_pattern(text: str) -> str:
    """Return text escaped for LIKE with ``!`` as the escape character."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def names(columns: list[str] | tuple[str, ...], alias: str = "") -> str:
    """Return a column list for a SELECT, optionally of one table of a join."""
    prefix = f"{alias}." if alias else ""
    return ", ".join(prefix + column for column in columns)


SELECT_SESSION: Final = f"SELECT {names(SESSION_COLUMNS)} FROM sessions"
#: The columns of `SELECT_MESSAGE`.
SELECTED_MESSAGE_COLUMNS: Final = [*MESSAGE_COLUMNS, "attachments", "content_type"]
SELECT_MESSAGE: Final = f"SELECT {names(SELECTED_MESSAGE_COLUMNS)} FROM messages"


def session_record(row: Row) -> SessionRecord:
    """Return the record for a row of `SELECT_SESSION`."""
    return cast("SessionRecord", session_values(SESSION_COLUMNS, row))


def session_values(columns: Iterable[str], row: Row) -> Record:
    """Return the values of a row by column, a session's metadata and tags decoded."""
    record = dict(zip(columns, row, strict=True))
    record["metadata"] = decode_metadata(record["metadata"])
    record["tags"] = decode_tags(record["tags"])
    return record


def decode_metadata(column: str | None) -> Metadata:
    """Return the metadata in a column; {} when there is none or it cannot be read."""
    value = from_json(column, None)
    return value if isinstance(value, dict) else {}


def decode_tags(column: str | None) -> list[str]:
    """Return the tags in a column; [] when there are none or they cannot be read."""
    value = from_json(column, None)
    return [tag for tag in value if isinstance(tag, str)] if isinstance(value, list) else []


def message_record(row: Row) -> MessageRecord:
    """Return the record for a row of `SELECT_MESSAGE`, with decoded values.

    For attachments, see `attachments.message_records`.
    """
    record = dict(zip(MESSAGE_COLUMNS, row, strict=False))
    decode_message(record, row[-1])
    return cast("MessageRecord", record)


def decode_message(record: Record, content_type: str | None) -> None:
    """Replace the stored texts of content, tool calls and payload by their decoded values."""
    if content_type is not None:
        record["content"] = decode_content(record["content"], content_type)
    if record["tool_calls"] is not None:
        record["tool_calls"] = from_json(record["tool_calls"], [])
    for name in MESSAGE_VALUES:
        if record[name] is not None:
            record[name] = decode_value(record[name])
