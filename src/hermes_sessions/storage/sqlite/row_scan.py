"""Reads tables of an old file row by row, including text that is not UTF-8."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import apsw

from hermes_sessions.storage.sqlite.hermes_values import Value, decode_lossless

# Reading tables of a file that may be damaged, row by row, including text that is not UTF-8.


Report = Callable[[str], None]
#: Errors of a statement that meets a damaged page.
DAMAGE: Final = (apsw.CorruptError, apsw.IOError)

#: This many zeros in a text come from the disk. (Programs use a single one as a prefix.)
_ZEROS: Final = "\0" * 16


def has_zeroed_part(value: object) -> bool:
    """Tell whether a value is a text with a part overwritten by zeros."""
    return isinstance(value, str) and _ZEROS in value


def rows_of(
    connection: apsw.Connection,
    table: str,
    columns: Sequence[str],
    tail: str = "",
    params: Sequence[Any] = (),
) -> Iterator[tuple[Any, ...]]:
    """Yield rows in the order of *tail*; text that is not UTF-8 contains lone surrogates."""
    done = 0
    names = ", ".join(map(quoted, columns))
    try:
        for row in connection.execute(f"SELECT {names} FROM {quoted(table)} {tail}", params):
            yield row
            done += 1
    except UnicodeDecodeError:
        # The same rows again as bytes, from the first that could not be decoded.
        again = connection.execute(
            f"SELECT {_as_bytes(columns)} FROM {quoted(table)} {tail}", params
        )
        yield from map(_decoded, islice(again, done, None))


def _as_bytes(columns: Sequence[str]) -> str:
    return ", ".join(
        f"typeof({name}) = 'text', CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) "
        f"ELSE {name} END"
        for name in map(quoted, columns)
    )


def _decoded(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        decode_lossless(value) if is_text else value
        for is_text, value in zip(row[::2], row[1::2], strict=True)
    )


def readable_rows(
    connection: apsw.Connection,
    table: str,
    columns: Sequence[str],
    condition: str,
    params: Sequence[Any],
    report: Report,
) -> list[tuple[Any, ...]]:
    """Return the readable rows of a damaged table, by rowid; report the others."""
    found: list[tuple[Any, ...]] = []
    for rowid in _rowids(connection, table, condition, params, report):
        try:
            found += rows_of(connection, table, columns, "WHERE rowid = ?", (rowid,))
        except DAMAGE as error:
            report(f"{table}, row {rowid}: {error}")
    return found


def readable_cells(
    connection: apsw.Connection, table: str, columns: Sequence[str], rowid: int, report: Report
) -> dict[str, Any]:
    """Return the readable cells of one damaged row; report the others."""
    found: dict[str, Any] = {}
    for column in columns:
        try:
            for (value,) in rows_of(connection, table, (column,), "WHERE rowid = ?", (rowid,)):
                found[column] = value
        except DAMAGE as error:
            report(f"{table}, row {rowid}, {column}: {error}")
    return found


def _rowids(
    connection: apsw.Connection, table: str, condition: str, params: Sequence[Any], report: Report
) -> list[int]:
    """Return the row ids found through an index, or from either end of the table."""
    rowids: set[int] = set()
    complete = False
    for order in ("", "ORDER BY rowid", "ORDER BY rowid DESC"):
        hint = "" if not order else "NOT INDEXED"
        sql = f"SELECT rowid FROM {quoted(table)} {hint} {condition} {order}"
        try:
            rowids.update(row[0] for row in connection.execute(sql, params))
            complete = True
            break
        except DAMAGE:
            # Ids read before the damage are kept.
            continue
    if not complete:
        report(f"{table}: a part of it is damaged, and its number of rows is unknown")
    return sorted(rowids)


_FIRST: Final = -(2**63)
_LAST: Final = 2**63 - 1


class ScannedRow(NamedTuple):
    """A row, and whether some of its text is not UTF-8 (and contains lone surrogates instead)."""

    rowid: int
    values: Sequence[Value]
    undecodable: bool


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def fetch(
    connection: apsw.Connection, sql: str, params: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    return connection.execute(sql, params).fetchall()


def scan(
    connection: apsw.Connection, table: str, columns: Sequence[str], after: int | None, limit: int
) -> Generator[ScannedRow]:
    """Yield up to *limit* rows after rowid *after* (None: from the start), in rowid order.

    The table may only be changed after the scan was closed or exhausted.
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
    """Read the row at or after *first* whose text could not be decoded."""
    row = connection.execute(
        f"SELECT {_as_bytes(('rowid', *columns))} FROM {quoted(table)} "
        f"WHERE rowid >= ? ORDER BY rowid LIMIT 1",
        (first,),
    ).get
    rowid, *values = _decoded(row)
    return ScannedRow(rowid, values, undecodable=True)
