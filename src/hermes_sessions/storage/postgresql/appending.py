"""Appending one message in one statement: the session's row, the message and the mark together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from hermes_sessions.storage.provider import NewRow
from hermes_sessions.storage.tables import MESSAGES

_CASTS: Final = {"text": "TEXT", "name": "TEXT", "real": "FLOAT8", "integer": "BIGINT"}
_KINDS: Final = {column.name: column.kind for column in MESSAGES.columns}


@lru_cache(maxsize=8)
def statement(columns: tuple[str, ...]) -> str:
    """Return the statement for a message with these columns; see `parameters`.

    It gives the message's id, or no row when there is no such session.
    """
    names = ", ".join(columns)
    # Types are named: in a SELECT the server cannot take them from the columns of the INSERT.
    values = ", ".join(f"CAST(? AS {_CASTS[_KINDS[name]]})" for name in columns)
    return f"""
WITH given AS (
    SELECT CAST(? AS TEXT) AS session_id, CAST(? AS FLOAT8) AS newest
), session AS (
    UPDATE sessions SET
        last_active = CASE WHEN last_active > given.newest
            AND (message_count > 0 OR last_active > started_at)
            THEN last_active ELSE given.newest END,
        message_count = COALESCE(message_count, 0) + 1,
        tool_call_count = COALESCE(tool_call_count, 0) + ?,
        next_ordinal = next_ordinal + 1,
        preview = COALESCE(preview, ?)
    FROM given WHERE id = given.session_id AND trashed_at IS NULL
    RETURNING id, next_ordinal - 1 AS ordinal, listed, chain_id
), tip AS (
    UPDATE sessions SET last_active = given.newest
    FROM given, session WHERE sessions.last_active < given.newest AND session.listed = 0
        AND sessions.id = (SELECT head.tip_id FROM sessions head WHERE head.id = session.chain_id)
        AND sessions.id <> session.id
), message AS (
    INSERT INTO messages (session_id, ordinal, {names})
    SELECT session.id, session.ordinal, {values} FROM session
    RETURNING id
), mark AS (
    INSERT INTO write_marks (mark, message_id, marked_at)
    SELECT ?, message.id, ? FROM message
)
SELECT id FROM message"""


def parameters(row: NewRow, mark: str, now: float) -> Sequence[Any]:
    """Return the parameters of `statement`, in order."""
    return (
        row.session_id,
        row.timestamp,
        row.tool_calls,
        row.preview,
        *row.values,
        mark,
        now,
    )
