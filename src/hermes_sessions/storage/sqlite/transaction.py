"""Statements on one connection, with the codec applied to every text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import apsw

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.codec import decode_row, decode_rows, encode_params
from hermes_sessions.storage.provider import Params, Row

#: What the driver raises for a value of a type or size that no column takes.
_UNFIT: Final = (TypeError, OverflowError)


class ApswTransaction:
    """The port's read and write transaction over an apsw connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def one(self, sql: str, params: Params = ()) -> Row | None:
        """See `ReadTransaction.one`."""
        cursor = self._execute(sql, params)
        row = cursor.fetchone()
        if row is None:
            return None
        cursor.close()
        return decode_row(row)

    def all(self, sql: str, params: Params = ()) -> list[Row]:
        """See `ReadTransaction.all`."""
        return decode_rows(self._execute(sql, params).fetchall())

    def stream(self, sql: str, params: Params = ()) -> Iterator[Row]:
        """See `ReadTransaction.stream`."""
        for row in self._execute(sql, params):
            yield decode_row(row)

    def run(self, sql: str, params: Params = ()) -> int:
        """See `WriteTransaction.run`."""
        self._execute(sql, params)
        return self._connection.changes()

    def run_many(self, sql: str, rows: Iterable[Params]) -> None:
        """See `WriteTransaction.run_many`."""
        try:
            self._connection.executemany(sql, map(encode_params, rows))
        except _UNFIT as error:
            raise _refused(error) from error

    def insert(self, sql: str, params: Params = ()) -> int:
        """See `WriteTransaction.insert`."""
        self._execute(sql, params)
        return self._connection.last_insert_rowid()

    def _execute(self, sql: str, params: Params) -> apsw.Cursor:
        try:
            return self._connection.execute(sql, encode_params(params))
        except _UNFIT as error:
            raise _refused(error) from error


def _refused(error: Exception) -> InvalidInput:
    return InvalidInput(
        f"A value cannot be used: {error}. Columns take text, bytes, None, and numbers, whole ones "
        f"up to 64 bits."
    )
