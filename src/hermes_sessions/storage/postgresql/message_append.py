"""Append a message in one statement, which writes the session's row, the message and the mark.

This is the most frequent operation of a store. The statement is prepared once on each connection
and sent through ``psycopg.pq``, the driver's documented layer below cursors, which takes a third of
the CPU time of a cursor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq
from psycopg.errors import InvalidSqlStatementName

from hermes_sessions.storage.codec import encode_text
from hermes_sessions.storage.postgresql.response_timeouts import ServerResponses
from hermes_sessions.storage.provider import NewRow
from hermes_sessions.storage.servers.driver import HAS_NO_OTHER_TIP
from hermes_sessions.storage.tables import MESSAGES

_CASTS: Final = {"text": "TEXT", "name": "TEXT", "real": "FLOAT8", "integer": "BIGINT"}
_KINDS: Final = {column.name: column.kind for column in MESSAGES.columns}
#: Parameters before those of the message's columns; see `parameters`.
_BEFORE: Final = 7

#: If lists show another session of the same thread, that session becomes more recent.
_TIP: Final = """, tip AS (
    UPDATE sessions SET last_active = $2
    FROM session WHERE sessions.last_active < $2 AND session.listed = 0
        AND sessions.id = (SELECT head.tip_id FROM sessions head WHERE head.id = session.chain_id)
        AND sessions.id <> session.id
)"""


class Statement(NamedTuple):
    """A statement, and its name if it is prepared."""

    name: bytes
    sql: bytes


@lru_cache(maxsize=8)
def statement(columns: tuple[str, ...], *, tip_too: bool) -> Statement:
    """Return the statement for a message with these columns; see `parameters`.

    It returns the message's id, or no row if the session does not exist or has another fence.
    Without *tip_too*, it finds only sessions that have no other tip, and takes a fifth less time.
    """
    names = ", ".join(columns)
    seen = "" if tip_too else f" AND {HAS_NO_OTHER_TIP}"
    # Types are given: in a SELECT the server does not infer them from the columns of the INSERT.
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
    WHERE id = $1 AND trashed_at IS NULL
        AND fence IS NOT DISTINCT FROM CAST($7 AS BIGINT){seen}
    RETURNING id, next_ordinal - 1 AS ordinal, listed, chain_id
), message AS (
    INSERT INTO messages (session_id, ordinal, {names})
    SELECT session.id, session.ordinal, {values} FROM session
    RETURNING id
){_TIP if tip_too else ""}
INSERT INTO write_marks (mark, message_id, marked_at)
SELECT CAST($5 AS TEXT), message.id, CAST($6 AS FLOAT8) FROM message
RETURNING message_id"""
    return Statement(b"append_and_tip" if tip_too else b"append", sql.encode())


def parameters(row: NewRow, mark: str, now: float) -> list[bytes | None]:
    """Return the parameters of `statement`, in order and as the server reads them."""
    session = (row.session_id, row.timestamp, row.tool_calls, row.preview)
    return [*map(_as_text, (*session, mark, now, row.fence, *row.values))]


def _as_text(value: Any) -> bytes | None:
    if value is None:
        return None
    return encode_text(value).encode() if isinstance(value, str) else repr(value).encode()


def run_prepared(
    connection: psycopg.Connection,
    answers: ServerResponses,
    wanted: Statement,
    params: list[bytes | None],
) -> int | None:
    """Run a statement in its own transaction; return its number, or None without a row.

    Raises:
        psycopg.Error: the server refused it, or the connection was lost or given up.
    """
    if wanted.name in answers.prepared:
        try:
            return _run_known(connection, answers, wanted, params)
        except InvalidSqlStatementName:
            # The driver drops all prepared statements after it rolled a transaction back.
            answers.prepared.clear()
    connection.pgconn.send_prepare(wanted.name, wanted.sql)
    _result(connection, answers)
    answers.prepared.add(wanted.name)
    return _run_known(connection, answers, wanted, params)


def _run_known(
    connection: psycopg.Connection,
    answers: ServerResponses,
    wanted: Statement,
    params: list[bytes | None],
) -> int | None:
    connection.pgconn.send_query_prepared(wanted.name, params)
    return _number(_result(connection, answers))


def run_once(
    connection: psycopg.Connection,
    answers: ServerResponses,
    wanted: Statement,
    params: list[bytes | None],
) -> int | None:
    """Do the same as `run_prepared`, unprepared and inside the current transaction."""
    connection.pgconn.send_query_params(wanted.sql, params)
    return _number(_result(connection, answers))


def _number(result: pq.abc.PGresult) -> int | None:
    found = result.get_value(0, 0) if result.ntuples else None
    return None if found is None else int(found)


def _result(connection: psycopg.Connection, answers: ServerResponses) -> pq.abc.PGresult:
    """Return the response; wait for it as long as for a commit."""
    pgconn = connection.pgconn
    wait = answers.wait_for(connection)
    # A statement larger than the socket's buffer is sent while the server may already respond.
    while pgconn.flush():
        wait(True)
        pgconn.consume_input()
    last: pq.abc.PGresult | None = None
    while True:
        while pgconn.is_busy():
            wait(False)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            break
        last = result
    if last is None or last.status == pq.ExecStatus.FATAL_ERROR:
        raise _refusal(last)
    answers.require_replicated(connection)
    return last


def _refusal(result: pq.abc.PGresult | None) -> psycopg.Error:
    if result is None:
        return psycopg.OperationalError("the server gave no answer")
    said = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    state = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
    try:
        kind = psycopg.errors.lookup(state.decode())
    except KeyError:
        # libpq's own message: the connection was lost.
        kind = psycopg.OperationalError
    return kind(said.decode("utf-8", "replace"))
