"""Statements on one connection, with the codec applied to every text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import apsw

from hermes_sessions.errors import InvalidInput, StoreCorrupt
from hermes_sessions.storage.codec import decode_row, decode_rows, encode_params
from hermes_sessions.storage.provider import Params, Row

#: Errors of the driver for a value whose type or size no column accepts.
_UNFIT: Final = (TypeError, OverflowError)


class ApswTransaction:
    """The port's read and write transaction over an apsw connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def one(self, sql: str, params: Params = ()) -> Row | None:
        """See `ReadTransaction.one`."""
        cursor = self._execute(sql, params)
        try:
            row = cursor.fetchone()
        except UnicodeDecodeError as error:
            raise self._undecodable(error) from error
        if row is None:
            return None
        cursor.close()
        return decode_row(row)

    def all(self, sql: str, params: Params = ()) -> list[Row]:
        """See `ReadTransaction.all`."""
        cursor = self._execute(sql, params)
        try:
            return decode_rows(cursor.fetchall())
        except UnicodeDecodeError as error:
            raise self._undecodable(error) from error

    def stream(self, sql: str, params: Params = ()) -> Iterator[Row]:
        """See `ReadTransaction.stream`."""
        rows = iter(self._execute(sql, params))
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except UnicodeDecodeError as error:
                raise self._undecodable(error) from error
            yield decode_row(row)

    def _undecodable(self, error: UnicodeDecodeError) -> StoreCorrupt:
        return StoreCorrupt(
            f"{self._connection.filename}: a text in it is not UTF-8 ({error.reason}), so it is "
            f"damaged. Nothing was changed; to recover what can be read: hermes repair"
        )

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
        f"A value cannot be used: {error}. Columns accept text, bytes, None, floats and 64-bit "
        f"integers."
    )
