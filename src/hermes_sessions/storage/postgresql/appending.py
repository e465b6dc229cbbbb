"""Appending one message in one statement: the session's row, the message and the mark together.

This is what a store does most. The statement is prepared once on each connection and sent by the
driver's own layer below cursors, which costs a third of the processor's time of a cursor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result
from psycopg.generators import execute

from hermes_sessions.storage.codec import encode_text
from hermes_sessions.storage.provider import NewRow
from hermes_sessions.storage.tables import MESSAGES

_CASTS: Final = {"text": "TEXT", "name": "TEXT", "real": "FLOAT8", "integer": "BIGINT"}
_KINDS: Final = {column.name: column.kind for column in MESSAGES.columns}
#: Parameters before those of the message's columns; see `parameters`.
_BEFORE: Final = 6

#: A session that is part of a thread, but not what lists show of it, makes that one more recent.
_TIP: Final = """, tip AS (
    UPDATE sessions SET last_active = $2
    FROM session WHERE sessions.last_active < $2 AND session.listed = 0
        AND sessions.id = (SELECT head.tip_id FROM sessions head WHERE head.id = session.chain_id)
        AND sessions.id <> session.id
)"""


class Statement(NamedTuple):
    """A statement, and its name where it is prepared."""

    name: bytes
    sql: bytes


@lru_cache(maxsize=8)
def statement(columns: tuple[str, ...], *, listed: bool) -> Statement:
    """Return the statement for a message with these columns; see `parameters`.

    It gives the message's id, or no row when there is no such session. The one for *listed*
    sessions does not see others, and costs the server a fifth less.
    """
    names = ", ".join(columns)
    # Types are named: in a SELECT the server cannot take them from the columns of the INSERT.
    values = ", ".join(
        f"CAST(${number} AS {_CASTS[_KINDS[name]]})"
        for number, name in enumerate(columns, _BEFORE + 1)
    )
    sql = f"""
WITH session AS (
    UPDATE sessions SET
        last_active = CASE WHEN last_active > $2 AND (message_count > 0 OR last_active > started_at)
            THEN last_active ELSE $2 END,
        message_count = COALESCE(message_count, 0) + 1,
        tool_call_count = COALESCE(tool_call_count, 0) + $3,
        next_ordinal = next_ordinal + 1,
        preview = COALESCE(preview, $4)
    WHERE id = $1 AND trashed_at IS NULL{" AND listed = 1" if listed else ""}
    RETURNING id, next_ordinal - 1 AS ordinal, listed, chain_id
), message AS (
    INSERT INTO messages (session_id, ordinal, {names})
    SELECT session.id, session.ordinal, {values} FROM session
    RETURNING id
){"" if listed else _TIP}
INSERT INTO write_marks (mark, message_id, marked_at)
SELECT CAST($5 AS TEXT), message.id, CAST($6 AS FLOAT8) FROM message
RETURNING message_id"""
    return Statement(b"append_to_listed" if listed else b"append", sql.encode())


def parameters(row: NewRow, mark: str, now: float) -> list[bytes | None]:
    """Return the parameters of `statement`, in order and as the server reads them."""
    return [
        *map(
            _as_text,
            (row.session_id, row.timestamp, row.tool_calls, row.preview, mark, now, *row.values),
        )
    ]


def _as_text(value: Any) -> bytes | None:
    if value is None:
        return None
    return encode_text(value).encode() if isinstance(value, str) else repr(value).encode()


def run_prepared(
    connection: psycopg.Connection,
    prepared: set[bytes],
    wanted: Statement,
    params: list[bytes | None],
) -> int | None:
    """Run a statement in a transaction of its own; return the number it gives, if any.

    *prepared* are the names of the statements that this connection knows.

    Raises:
        psycopg.Error: it was refused, or the connection was lost.
    """
    pgconn = connection.pgconn
    if wanted.name not in prepared:
        pgconn.send_prepare(wanted.name, wanted.sql)
        _result(connection)
        prepared.add(wanted.name)
    pgconn.send_query_prepared(wanted.name, params)
    return _number(_result(connection))


def run_once(
    connection: psycopg.Connection, wanted: Statement, params: list[bytes | None]
) -> int | None:
    """Do the same without preparing the statement, inside the transaction there is."""
    connection.pgconn.send_query_params(wanted.sql, params)
    return _number(_result(connection))


def _number(result: pq.abc.PGresult) -> int | None:
    found = result.get_value(0, 0) if result.ntuples else None
    return None if found is None else int(found)


def _result(connection: psycopg.Connection) -> pq.abc.PGresult:
    # The driver's way to wait, which Ctrl-C interrupts.
    result: pq.abc.PGresult = connection.wait(execute(connection.pgconn))[-1]
    if result.status == pq.ExecStatus.FATAL_ERROR:
        raise error_from_result(result)
    return result
