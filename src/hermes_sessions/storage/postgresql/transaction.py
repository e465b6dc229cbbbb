"""Run statements on one connection, with the codec applied to every text."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import Any, Final, Literal

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from hermes_sessions.storage.codec import decode_row, encode_params
from hermes_sessions.storage.postgresql.response_timeouts import ServerResponses
from hermes_sessions.storage.provider import Params, Row
from hermes_sessions.storage.servers.driver import DescribedRows
from hermes_sessions.storage.servers.unit_of_work import noted

logger = logging.getLogger(__name__)

#: Rows that a stream fetches at a time.
_FETCHED: Final = 200
_cursor_numbers: Final = count()


class _NumberLoader(Loader):
    """Load whole ``numeric`` values as int: sums of integers arrive as ``numeric``."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode("ascii")
        return int(text) if text.lstrip("-").isdigit() else float(text)


class PsycopgTransaction:
    """The port's read and write transaction over a connection inside a transaction."""

    __slots__ = ("_answers", "_cursor", "lent")

    def __init__(self, connection: psycopg.Connection, answers: ServerResponses) -> None:
        self.lent = connection
        self._answers = answers
        self._cursor = psycopg.RawCursor(connection)
        # Not on the connection, which may belong to the application.
        self._cursor.adapters.register_loader("numeric", _NumberLoader)

    def one(self, sql: str, params: Params = ()) -> Row | None:
        """See `ReadTransaction.one`."""
        self._cursor.execute(numbered(sql), encode_params(params))
        row = self._cursor.fetchone()
        return None if row is None else decode_row(row)

    def all(self, sql: str, params: Params = ()) -> list[Row]:
        """See `ReadTransaction.all`."""
        self._cursor.execute(numbered(sql), encode_params(params))
        return [decode_row(row) for row in self._cursor.fetchall()]

    def stream(self, sql: str, params: Params = ()) -> Iterator[Row]:
        """See `ReadTransaction.stream`."""
        name = f"stream_{next(_cursor_numbers)}"
        cursor = psycopg.RawServerCursor(self.lent, name)
        try:
            cursor.itersize = _FETCHED
            cursor.execute(numbered(sql), encode_params(params))
            for row in cursor:
                yield decode_row(row)
        finally:
            with suppress(psycopg.Error):
                cursor.close()
            # If the connection was lost meanwhile, only the second close sends nothing.
            cursor.close()

    def described(self, sql: str, params: Params) -> DescribedRows:
        """See `ServerTransaction.described`."""
        cursor = self._cursor.execute(numbered(sql), encode_params(params))
        names = tuple(column.name for column in cursor.description or ())
        rows = [decode_row(row) for row in cursor.fetchall()] if names else []
        return DescribedRows(names, rows, max(0, cursor.rowcount))

    def run(self, sql: str, params: Params = ()) -> int:
        """See `WriteTransaction.run`."""
        self._cursor.execute(numbered(sql), encode_params(params))
        return max(0, self._cursor.rowcount)

    def run_many(self, sql: str, rows: Iterable[Params]) -> None:
        """See `WriteTransaction.run_many`."""
        encoded: list[tuple[Any, ...]] = [encode_params(row) for row in rows]
        if encoded:
            self._cursor.executemany(numbered(sql), encoded)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Iterable[Params]) -> None:
        """Insert rows by COPY; see `bulk_insert`."""
        names = ", ".join(f'"{name}"' for name in columns)
        with self._cursor.copy(f"COPY {table} ({names}) FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(encode_params(row))

    def insert(self, sql: str, params: Params = ()) -> int:
        """See `WriteTransaction.insert`."""
        [row] = self.all(f"{sql} RETURNING id", params)
        return int(row[0])

    def commit(self, mark: str, *, is_noted: bool = False) -> None:
        """See `ServerTransaction.commit`. The response to ``COMMIT`` is checked: a server that had
        left the transaction, or rolls it back instead, reports that there, without an error.
        """
        statements = ("COMMIT",) if is_noted else (noted(mark), "COMMIT")
        is_left = is_at_rest(self.lent)
        if not is_left:
            with self._answers.committing():
                cursor = self.lent.execute("; ".join(statements).encode())
            for _ in statements[1:]:
                cursor.nextset()
            is_left = cursor.statusmessage != "COMMIT"
        if is_left:
            raise psycopg.errors.SerializationFailure("the server rolled the transaction back")

    def end(self, how: Literal["COMMIT", "ROLLBACK"]) -> bool:
        """See `ServerTransaction.end`."""
        return is_ended(self.lent, self._answers, how)


def is_ended(
    connection: psycopg.Connection, answers: ServerResponses, how: Literal["COMMIT", "ROLLBACK"]
) -> bool:
    """End an open transaction, if any; return whether the connection can be used again."""
    if not is_at_rest(connection) and not connection.closed:
        try:
            with answers.committing():
                connection.execute(how.encode())
        except psycopg.Error as error:
            logger.debug("a connection was lost: %s", error)
    return is_at_rest(connection)


def is_at_rest(connection: psycopg.Connection) -> bool:
    """Whether the connection is not lost and certainly outside any transaction."""
    return connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


@lru_cache(maxsize=1024)
def numbered(sql: str) -> bytes:
    """Return the statement with its question marks replaced by ``$1``, ``$2`` …"""
    pieces = sql.split("?")
    text = pieces[0] + "".join(f"${n}{piece}" for n, piece in enumerate(pieces[1:], 1))
    return text.encode()
