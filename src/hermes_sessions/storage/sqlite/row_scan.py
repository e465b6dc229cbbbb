"""Reads tables of an old file row by row, including text that is no UTF-8."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple

import apsw

from hermes_sessions.storage.sqlite.upgrade.values import Value, text_of_bytes

_FIRST: Final = -(2**63)
_LAST: Final = 2**63 - 1


class ScannedRow(NamedTuple):
    """A row, and whether some of its text is no UTF-8 (then it holds lone surrogates instead)."""

    rowid: int
    values: Sequence[Value]
    undecodable: bool


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def fetch(
    connection: apsw.Connection, sql: str, params: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    return connection.execute(sql, params).fetchall()


def scan(
    connection: apsw.Connection, table: str, columns: Sequence[str], after: int | None, limit: int
) -> Generator[ScannedRow]:
    """Yield up to *limit* rows behind rowid *after* (None: from the start), in rowid order.

    The table may be changed only when the scan was closed or exhausted.
    """
    names = ", ".join(map(quoted, columns))
    select = f"SELECT rowid, {names} FROM {quoted(table)} WHERE rowid >= ? ORDER BY rowid LIMIT ?"
    while limit > 0 and after != _LAST:
        first = _FIRST if after is None else after + 1
        rows = connection.execute(select, (first, limit))
        try:
            for row in rows:
                yield ScannedRow(row[0], row[1:], undecodable=False)
                after, first, limit = row[0], row[0] + 1, limit - 1
            return
        except UnicodeDecodeError:
            rows.close(True)
            found = _read_bytes(connection, table, columns, first)
            yield found
            after, limit = found.rowid, limit - 1
        finally:
            rows.close(True)


def _read_bytes(
    connection: apsw.Connection, table: str, columns: Sequence[str], first: int
) -> ScannedRow:
    """Read the row at or behind *first* whose text could not be decoded."""
    names = ", ".join(
        f"typeof({name}) = 'text', CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) "
        f"ELSE {name} END"
        for name in map(quoted, columns)
    )
    row = connection.execute(
        f"SELECT rowid, {names} FROM {quoted(table)} WHERE rowid >= ? ORDER BY rowid LIMIT 1",
        (first,),
    ).get
    values = [
        text_of_bytes(value) if is_text else value
        for is_text, value in zip(row[1::2], row[2::2], strict=True)
    ]
    return ScannedRow(row[0], values, undecodable=True)
