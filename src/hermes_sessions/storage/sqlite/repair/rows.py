"""Reading tables of a file that may be damaged, row by row, including text that is no UTF-8."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import apsw

from hermes_sessions.storage.sqlite.row_scan import quoted
from hermes_sessions.storage.sqlite.upgrade.values import text_of_bytes

Report = Callable[[str], None]
#: What a damaged page makes of a statement.
DAMAGE: Final = (apsw.CorruptError, apsw.IOError)

#: As many zeros in a text come from the disk. (Programs put one in front of something.)
_ZEROS: Final = "\0" * 16


def is_zeroed(value: object) -> bool:
    """Tell whether a value is a text of which a part was overwritten with zeros."""
    return isinstance(value, str) and _ZEROS in value


def rows_of(
    connection: apsw.Connection,
    table: str,
    columns: Sequence[str],
    tail: str = "",
    params: Sequence[Any] = (),
) -> Iterator[tuple[Any, ...]]:
    """Yield rows in the order *tail* says; text that is no UTF-8 comes as lone surrogates."""
    done = 0
    names = ", ".join(map(quoted, columns))
    try:
        for row in connection.execute(f"SELECT {names} FROM {quoted(table)} {tail}", params):
            yield row
            done += 1
    except UnicodeDecodeError:
        # The same rows again as bytes, from the one that could not be decoded.
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
        text_of_bytes(value) if is_text else value
        for is_text, value in zip(row[::2], row[1::2], strict=True)
    )


def rows_left(
    connection: apsw.Connection,
    table: str,
    columns: Sequence[str],
    condition: str,
    params: Sequence[Any],
    report: Report,
) -> list[tuple[Any, ...]]:
    """Return the rows of a damaged table that can still be read, by rowid; report the others."""
    found: list[tuple[Any, ...]] = []
    for rowid in _rowids(connection, table, condition, params, report):
        try:
            found += rows_of(connection, table, columns, "WHERE rowid = ?", (rowid,))
        except DAMAGE as error:
            report(f"{table}, row {rowid}: {error}")
    return found


def cells_left(
    connection: apsw.Connection, table: str, columns: Sequence[str], rowid: int, report: Report
) -> dict[str, Any]:
    """Return the cells of one damaged row that can still be read; report the others."""
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
    """Return the row ids that an index, or the table from either end, still tells."""
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
            # What the set got before the damage stays in it.
            continue
    if not complete:
        report(f"{table}: a part of it is damaged, and how many rows it held is not known")
    return sorted(rowids)
