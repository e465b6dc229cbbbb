"""Appending one message in one round trip: its session's row, the message and the mark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from hermes_sessions.storage.provider import NewRow, placeholders

#: Where the message stands among the statements, counted from 0.
INSERTED: Final = 2

#: A session that is part of a thread, but not what lists show of it, makes that one more recent.
_TIP: Final = """
UPDATE sessions SET last_active = ? WHERE last_active < ? AND id = (
    SELECT tip_id FROM (SELECT head.tip_id FROM sessions part
        JOIN sessions head ON head.id = part.chain_id WHERE part.id = ? AND part.listed = 0) AS late
);"""


@lru_cache(maxsize=128)
def _statements(columns: tuple[str, ...], *, listed: bool) -> str:
    """Return the statements for a message with these columns.

    They are a whole transaction. The session's row gives the message its place through
    ``LAST_INSERT_ID``; without such a session, ``session_id`` cannot be null, and nothing is done.
    Those for *listed* sessions do not see others, and cost the server a third less.
    """
    return f"""START TRANSACTION; UPDATE sessions SET
    last_active = CASE WHEN last_active > ? AND (message_count > 0 OR last_active > started_at)
        THEN last_active ELSE ? END,
    message_count = COALESCE(message_count, 0) + 1,
    tool_call_count = COALESCE(tool_call_count, 0) + ?,
    next_ordinal = LAST_INSERT_ID(next_ordinal) + 1,
    preview = COALESCE(preview, ?)
WHERE id = ? AND trashed_at IS NULL{" AND listed = 1" if listed else ""};
INSERT INTO messages (session_id, ordinal, {", ".join(columns)})
VALUES (IF(ROW_COUNT() > 0, ?, NULL), LAST_INSERT_ID(), {placeholders(len(columns))});
INSERT INTO write_marks (mark, message_id, marked_at) VALUES (?, LAST_INSERT_ID(), ?);
{"" if listed else _TIP} COMMIT"""


def statements(row: NewRow, mark: str, now: float, *, listed: bool) -> tuple[str, Sequence[Any]]:
    """Return the statements for a message, and their parameters.

    Nearly every message lacks most columns; what is not named need not be read by the server.
    """
    columns, values = zip(
        *[pair for pair in zip(row.columns, row.values, strict=True) if pair[1] is not None],
        strict=True,
    )
    params = (
        row.timestamp,
        row.timestamp,
        row.tool_calls,
        row.preview,
        row.session_id,
        row.session_id,
        *values,
        mark,
        now,
    )
    if not listed:
        params = (*params, row.timestamp, row.timestamp, row.session_id)
    return _statements(columns, listed=listed), params
