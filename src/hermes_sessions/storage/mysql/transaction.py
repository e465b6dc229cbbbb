"""Run statements on one connection, with the codec applied to every text.

A transaction begins with its first statement, in the same round trip. A stream occupies the
connection: before another statement runs, the remaining rows of the stream are set aside.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import isfinite
from tempfile import SpooledTemporaryFile
from typing import Any, Final, Literal

import pymysql
from pymysql.constants import SERVER_STATUS

from hermes_sessions.errors import StatementRefused
from hermes_sessions.storage.codec import decode_row, encode_text
from hermes_sessions.storage.mysql.error_translation import is_connection_lost
from hermes_sessions.storage.mysql.server_session import (
    Script,
    ServerSession,
    left_transaction,
)
from hermes_sessions.storage.provider import Params, Row, placeholders
from hermes_sessions.storage.servers.driver import DescribedRows
from hermes_sessions.storage.servers.unit_of_work import noted

logger = logging.getLogger(__name__)

#: Bytes of rows set aside that stay in memory; more go to a temporary file.
_KEPT_IN_MEMORY: Final = 4 * 1024 * 1024
#: Characters of statements that `run_many` sends at a time.
_SENT_AT_ONCE: Final = 500_000


class MySQLTransaction:
    """The port's read and write transaction."""

    __slots__ = ("_beginning", "_is_writing", "_open_stream", "_renewed", "lent")

    def __init__(
        self,
        session: ServerSession,
        beginning: tuple[str, ...],
        renewed: Callable[[ServerSession], ServerSession] | None = None,
        *,
        is_writing: bool = True,
    ) -> None:
        """*beginning* are the statements that begin it. *renewed* returns a new session if this one
        turns out to be lost before the first statement ran.
        """
        self.lent = session
        self._beginning = beginning
        self._renewed = renewed
        self._is_writing = is_writing
        self._open_stream: _Stream | None = None

    def one(self, sql: str, params: Params = ()) -> Row | None:
        """See `ReadTransaction.one`."""
        row = self._ask(sql, params).fetchone()
        return None if row is None else decode_row(row)

    def all(self, sql: str, params: Params = ()) -> list[Row]:
        """See `ReadTransaction.all`."""
        return [decode_row(row) for row in self._ask(sql, params).fetchall()]

    def stream(self, sql: str, params: Params = ()) -> Iterator[Row]:
        """See `ReadTransaction.stream`."""
        stream = _Stream(self._ask(sql, params, unbuffered=True))
        self._open_stream = stream
        try:
            while (row := stream.next_row()) is not None:
                yield decode_row(row)
        finally:
            if self._open_stream is stream:
                self._open_stream = None
            stream.close()

    def described(self, sql: str, params: Params) -> DescribedRows:
        """See `ServerTransaction.described`."""
        cursor = self._ask(sql, params)
        names = tuple(column[0] for column in cursor.description or ())
        rows = [decode_row(row) for row in cursor.fetchall()] if names else []
        return DescribedRows(names, rows, max(0, cursor.rowcount))

    def run(self, sql: str, params: Params = ()) -> int:
        """See `WriteTransaction.run`."""
        return max(0, self._ask(sql, params).rowcount)

    def run_many(self, sql: str, rows: Iterable[Params]) -> None:
        """See `WriteTransaction.run_many`."""
        waiting: list[str] = []
        size = 0
        for row in rows:
            text = with_values(self.lent.connection, sql, row)
            if waiting and size + len(text) > _SENT_AT_ONCE:
                self.send(*waiting)
                waiting, size = [], 0
            waiting.append(text)
            size += len(text)
        if waiting:
            self.send(*waiting)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Iterable[Params]) -> None:
        """Insert rows, many per statement; see `bulk_insert`."""
        names = ", ".join(f'"{name}"' for name in columns)
        row_of = f"({placeholders(len(columns))})"
        waiting: list[str] = []
        size = 0
        for row in rows:
            waiting.append(with_values(self.lent.connection, row_of, row))
            size += len(waiting[-1])
            if size > _SENT_AT_ONCE:
                self.send(f"INSERT INTO {table} ({names}) VALUES {', '.join(waiting)}")
                waiting, size = [], 0
        if waiting:
            self.send(f"INSERT INTO {table} ({names}) VALUES {', '.join(waiting)}")

    def insert(self, sql: str, params: Params = ()) -> int:
        """See `WriteTransaction.insert`."""
        return int(self._ask(sql, params).lastrowid or 0)

    def commit(self, mark: str, *, is_noted: bool = False) -> None:
        """See `ServerTransaction.commit`."""
        self._make_way()
        # The last statement of `beginning` begins the transaction.
        first, statements = self._beginning[:-1], self._beginning[-1:]
        self._beginning = ()
        if not is_noted:
            statements += (noted(mark),)
        script = Script((*statements, "COMMIT"), within=range(len(statements)))
        self.lent.run_script(first, script, mark)

    def end(self, how: Literal["COMMIT", "ROLLBACK"]) -> bool:
        """See `ServerTransaction.end`."""
        if not self.lent.is_usable:
            return False
        try:
            self._close_stream()
        except pymysql.Error as error:
            logger.debug("a connection was lost: %s", error)
            return False
        if self._beginning:
            self.lent.lock_wait = -1  # The new value was never sent.
            return True
        return self.lent.is_ended(how)

    def _close_stream(self) -> None:
        """Read the remaining rows of a stream, so that the connection can be used again."""
        stream, self._open_stream = self._open_stream, None
        if stream is not None:
            stream.close()

    def _ask(self, sql: str, params: Params, *, unbuffered: bool = False) -> pymysql.cursors.Cursor:
        text = with_values(self.lent.connection, sql, params)
        return self.send(text, unbuffered=unbuffered)

    def send(self, *statements: str, unbuffered: bool = False) -> pymysql.cursors.Cursor:
        """Execute statements, in one round trip if possible; return the cursor on the result of
        the last.
        """
        self._make_way()
        *_, cursor = [
            self._send(*together, unbuffered=unbuffered)
            for together in self.lent.statements_at_once(statements)
        ]
        return cursor

    def _make_way(self) -> None:
        """Free the connection for another statement."""
        if self._open_stream is not None:
            self._open_stream.set_aside()
            self._open_stream = None

    def _send(self, *statements: str, unbuffered: bool) -> pymysql.cursors.Cursor:
        cursor = self._send_or_begin(*statements, unbuffered=unbuffered)
        if self._is_writing and not unbuffered and not self.lent.is_in_transaction:
            # The next statements would be stored without the previous ones.
            raise left_transaction()
        return cursor

    def _send_or_begin(self, *statements: str, unbuffered: bool) -> pymysql.cursors.Cursor:
        if not self._beginning:
            return _send(self.lent, statements, unbuffered)
        statements = (*self._beginning, *statements)
        try:
            cursor = _send(self.lent, statements, unbuffered)
        except pymysql.Error as error:
            lost = is_connection_lost(error, self.lent)
            if self._renewed is None or not lost or self.lent.answers.is_over:
                self._beginning = ()
                raise
            self.lent = self._renewed(self.lent)
            cursor = _send(self.lent, statements, unbuffered)
        self._beginning = ()
        return cursor


def _send(
    session: ServerSession, statements: tuple[str, ...], unbuffered: bool
) -> pymysql.cursors.Cursor:
    return session.execute(
        "; ".join(statements), skipped=len(statements) - 1, unbuffered=unbuffered
    )


class _Stream:
    """Rows read one by one from the connection, or after `set_aside` from a buffer."""

    def __init__(self, cursor: pymysql.cursors.Cursor) -> None:
        self._cursor: pymysql.cursors.Cursor | None = cursor
        self._aside: SpooledTemporaryFile[str] | None = None

    def next_row(self) -> Row | None:
        if self._cursor is not None:
            row: Row | None = self._cursor.fetchone()
            return row
        if self._aside is None:
            return None
        line = self._aside.readline()
        if not line:
            return None
        values = json.loads(line)
        return tuple([bytes(value) if type(value) is list else value for value in values])

    def set_aside(self) -> None:
        """Read the rest, so that the connection is free for another statement."""
        cursor, self._cursor = self._cursor, None
        if cursor is None:
            return
        aside = SpooledTemporaryFile(_KEPT_IN_MEMORY, "w+", encoding="ascii")  # noqa: SIM115
        self._aside = aside
        while (row := cursor.fetchone()) is not None:
            # ASCII and on one line for any text; bytes, which text never has, are lists.
            aside.write(json.dumps(row, default=list))
            aside.write("\n")
        aside.seek(0)

    def close(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()
        if self._aside is not None:
            self._aside.close()


@lru_cache(maxsize=1024)
def _pieces(sql: str) -> list[str]:
    return sql.split("?")


def with_values(connection: pymysql.Connection[Any], sql: str, params: Params) -> str:
    """Return the statement with its parameters written out, as the driver escapes them.

    Raises:
        StatementRefused: there are more or fewer parameters than question marks.
    """
    pieces = _pieces(sql)
    if len(pieces) != len(params) + 1:
        raise StatementRefused(
            f"The statement has {len(pieces) - 1} question marks and {len(params)} parameters. "
            f"Give one for each."
        )
    if len(pieces) == 1:
        return sql
    # In the sql_mode of our sessions only the quote is special. If a connection loses that mode,
    # which every response of the server shows, the driver escapes the text instead.
    status: int = connection.server_status  # type: ignore[attr-defined]
    is_ours = status & SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES
    parts = [pieces[0]]
    for value, piece in zip(params, pieces[1:], strict=True):
        if value is None:
            parts.append("NULL")
        elif isinstance(value, str):
            text = encode_text(value)
            parts.append(
                "'" + text.replace("'", "''") + "'" if is_ours else connection.escape(text)
            )
        elif type(value) is int:
            parts.append(str(value))
        elif isinstance(value, bytes):
            parts.append(f"x'{value.hex()}'")
        elif type(value) is float and isfinite(value):
            text = repr(value)
            # With an exponent, the server reads it as a double and not as a decimal.
            parts.append(text if "e" in text else text + "e0")
        else:
            parts.append(connection.escape(value))
        parts.append(piece)
    return "".join(parts)
