"""Append a message in one round trip: the session's row, the message and the mark.

For a session without another tip, which is nearly every one, this is a single INSERT: triggers
(`TRIGGERS`) assign the ordinal and write the mark. The server has parsed them already and sends no
replies for them, so this takes a fifth less time than separate statements. They read their inputs
from variables of the connection, and do nothing for inserts by programs that do not set these.

The INSERT itself does not contain the session's id: a trigger adds it. Without triggers, because a
dump was restored without them or another process is recreating them, the INSERT is refused instead
of stored without a session, and the longer form, which needs no triggers, is tried next.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Final

import pymysql

from hermes_sessions.storage.mysql.server_session import Script
from hermes_sessions.storage.mysql.transaction import with_values
from hermes_sessions.storage.provider import NewRow, placeholders
from hermes_sessions.storage.servers.driver import HAS_NO_OTHER_TIP

#: Makes the triggers do nothing again, after an INSERT that failed.
FORGET: Final = "SET @hermes_mark = NULL"

#: Updates the session's row; ``LAST_INSERT_ID`` is then the ordinal of the message.
_COUNTED: Final = """UPDATE sessions SET
    last_active = CASE
        WHEN last_active > {timestamp} AND (message_count > 0 OR last_active > started_at)
        THEN last_active ELSE {timestamp} END,
    message_count = COALESCE(message_count, 0) + 1,
    tool_call_count = COALESCE(tool_call_count, 0) + {tool_calls},
    next_ordinal = LAST_INSERT_ID(next_ordinal) + 1,
    preview = COALESCE(preview, {preview})
WHERE id = {session_id} AND trashed_at IS NULL AND fence <=> {fence}"""
_PLACED: Final = _COUNTED.format(
    timestamp="NEW.timestamp",
    tool_calls="@hermes_tool_calls",
    preview="@hermes_preview",
    session_id="@hermes_session",
    fence="@hermes_fence",
)
IS_APPENDED: Final = "@hermes_mark IS NOT NULL"
#: If the session does not exist, ``session_id`` stays null and the server refuses the INSERT.
PLACE: Final = (
    f"{_PLACED} AND {HAS_NO_OTHER_TIP}; IF ROW_COUNT() > 0 THEN "
    f"SET NEW.session_id = @hermes_session, NEW.ordinal = LAST_INSERT_ID(); END IF"
)
TRIGGERS: Final = {
    "messages_append_place": f"BEFORE INSERT ON messages FOR EACH ROW "
    f"IF {IS_APPENDED} THEN {PLACE}; END IF",
    "messages_append_mark": "AFTER INSERT ON messages FOR EACH ROW "
    f"IF {IS_APPENDED} THEN "
    "INSERT INTO write_marks (mark, message_id, marked_at) "
    "VALUES (@hermes_mark, NEW.id, @hermes_marked_at); "
    "SET @hermes_mark = NULL; END IF",
}

#: The input of the triggers.
_TOLD: Final = """SET @hermes_mark = ?, @hermes_marked_at = ?, @hermes_tool_calls = ?,
    @hermes_preview = ?, @hermes_fence = ?, @hermes_session = ?"""

_COUNTED_BY_VALUES: Final = _COUNTED.format(
    timestamp="?", tool_calls="?", preview="?", session_id="?", fence="?"
)
_MARKED: Final = (
    "INSERT INTO write_marks (mark, message_id, marked_at) VALUES (?, LAST_INSERT_ID(), ?)"
)
#: If lists show another session of the same thread, that session becomes more recent.
_TIP: Final = """
UPDATE sessions SET last_active = ? WHERE last_active < ? AND id = (
    SELECT tip_id FROM (SELECT head.tip_id FROM sessions part
        JOIN sessions head ON head.id = part.chain_id WHERE part.id = ? AND part.listed = 0) AS late
)"""


@lru_cache(maxsize=128)
def _alone(columns: tuple[str, ...]) -> str:
    return f"""INSERT INTO messages (session_id, {", ".join(columns)})
VALUES (NULL, {placeholders(len(columns))})"""


@lru_cache(maxsize=128)
def _and_place(columns: tuple[str, ...]) -> str:
    return f"""INSERT INTO messages (session_id, ordinal, {", ".join(columns)})
VALUES (IF(ROW_COUNT() > 0, ?, NULL), LAST_INSERT_ID(), {placeholders(len(columns))})"""


def script(
    connection: pymysql.Connection[Any], row: NewRow, mark: str, now: float, *, tip_too: bool
) -> Script:
    """Return the statements for a message. Without *tip_too*, they find only sessions that have no
    other tip. If the session is not found or has another fence, ``session_id`` is null, which the
    server refuses, and nothing is stored.

    Most columns of a message are empty; they are left out, so the server need not parse them.
    """
    columns, values = zip(
        *[pair for pair in zip(row.columns, row.values, strict=True) if pair[1] is not None],
        strict=True,
    )
    written = partial(with_values, connection)
    counts = (row.tool_calls, row.preview)
    if not tip_too:
        noted = (mark, now, *counts, row.fence, row.session_id)
        return Script((written(_TOLD, noted), written(_alone(columns), values)), inserting=1)
    counted = (row.timestamp, row.timestamp, *counts, row.session_id, row.fence)
    statements = (
        "START TRANSACTION",
        written(_COUNTED_BY_VALUES, counted),
        written(_and_place(columns), (row.session_id, *values)),
        written(_MARKED, (mark, now)),
        written(_TIP, (row.timestamp, row.timestamp, row.session_id)),
        "COMMIT",
    )
    return Script(statements, within=range(5), inserting=2)
