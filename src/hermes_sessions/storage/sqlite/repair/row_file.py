"""A file of unconstrained rows: what was recovered from a damaged file, before it is put in order.

Tables only have names and columns, so that no row is refused. Rows found without their table are in
``lost_and_found``, like in SQLite's ``.recover``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import apsw

from hermes_sessions.storage.sqlite.row_scan import quoted, rows_of
from hermes_sessions.storage.tables import MESSAGES, SESSIONS, Table

LOST_AND_FOUND: Final = "lost_and_found"
#: The columns before the values of such a row.
LOST_COLUMNS: Final = ("rootpgno", "pgno", "nfield", "id")
_BATCH: Final = 1000


class _LostRow(NamedTuple):
    """A row that was found without its table."""

    row_id: int
    values: list[Any]

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Return a row of ``lost_and_found``."""
        _, _, count, row_id, *values = row
        return cls(row_id, values[:count])


class RowFile:
    """A private row file, open for writing and reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: By table: the column with the row ids of the damaged file, if known.
        self.row_ids: dict[str, str] = {}
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        self.connection = apsw.Connection(str(path), flags=flags)
        # An interrupted run starts over, so nothing needs to survive it.
        self.connection.pragma("journal_mode", "off")
        self.connection.pragma("synchronous", "off")
        self.connection.pragma("trusted_schema", 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.connection.close(True)

    def tables(self) -> dict[str, list[str]]:
        """Return the columns of every table."""
        names = self.connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid"
        ).fetchall()
        return {str(name): self.columns(str(name)) for (name,) in names}

    def columns(self, table: str) -> list[str]:
        """Return the columns of a table; empty if it does not exist."""
        found = self.connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return [str(row[0]) for row in found]

    def make(self, table: str, columns: Sequence[str]) -> None:
        """Create a table unless it exists; add missing columns."""
        present = self.columns(table)
        if not present:
            names = ", ".join(map(quoted, columns))
            self.connection.execute(f"CREATE TABLE {quoted(table)} ({names})")
            return
        for column in columns:
            if column.lower() not in {name.lower() for name in present}:
                self.connection.execute(f"ALTER TABLE {quoted(table)} ADD COLUMN {quoted(column)}")

    def add(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
        """Insert rows; return how many."""
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {quoted(table)} ({', '.join(map(quoted, columns))}) VALUES ({marks})"
        count = 0
        with self.connection:
            for row in rows:
                self.connection.execute(sql, tuple(map(_bindable, row)))
                count += 1
        return count

    def count(self, table: str) -> int:
        """Return the number of rows in a table."""
        return int(self.connection.execute(f"SELECT COUNT(*) FROM {quoted(table)}").get)

    def rows(
        self, table: str, columns: Sequence[str], row_id: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table in the order of writing, or one of them."""
        one, given = ("", ()) if row_id is None else ("WHERE rowid = ? ", (row_id,))
        yield from rows_of(self.connection, table, columns, f"{one}ORDER BY rowid", given)


def _bindable(value: Any) -> Any:
    """Return text that is not UTF-8 as its original bytes; reading gives the text again."""
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogateescape")
    return value


# Guessing the table of a row from its values.


_WORD: Final = re.compile(r"[a-z][a-z_]{2,30}\Z")
#: The position of a time in both tables.
_TIME: Final = 7
_EARLIEST: Final = 1_000_000_000
_LATEST: Final = 10_000_000_000
_SHAPE_BATCH: Final = 500


def _names(table: Table) -> list[str]:
    return [column.name for column in table.columns if not column.generated]


#: Columns in the order of a new file.
ORDER: Final = {table.name: _names(table) for table in (MESSAGES, SESSIONS)}


def table_of(values: Sequence[Any]) -> str | None:
    """Return the table that a row with these values belongs to: messages, sessions, or None."""
    if len(values) <= _TIME or not _is_time(values[_TIME]):
        return None
    if not (_is_text(values[1]) and values[1]):
        return None
    if values[0] is None:
        is_role = isinstance(values[2], str) and _WORD.match(values[2]) is not None
        return "messages" if is_role else None
    is_session = _is_text(values[0]) and bool(values[0]) and len(values) > _TIME + 2
    return "sessions" if is_session else None


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and _EARLIEST < value < _LATEST


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) < 1000


def name_of(file: RowFile, table: str, row_id: int) -> tuple[str, Any] | None:
    """Return table and id of a row, even if it was found without its table.

    None if that is unknown, or the row is also in its table.
    """
    [row] = file.rows(table, file.columns(table), row_id)
    if table != LOST_AND_FOUND:
        return table, row[0]
    lost = _LostRow.of(row)
    belongs_to = table_of(lost.values)
    if belongs_to is None:
        return None
    name = lost.row_id if belongs_to == "messages" else lost.values[0]
    return None if name in _present(file, belongs_to) else (belongs_to, name)


def put_back(file: RowFile) -> tuple[dict[str, int], int]:
    """Move rows found without their table to where they belong, unless they are already there.

    Returns how many were moved, by table, and how many others are unidentified.
    """
    if LOST_AND_FOUND not in file.tables():
        return {}, 0
    present = {table: _present(file, table) for table in ORDER}
    restored: dict[str, int] = {}
    unknown = 0
    lost = file.columns(LOST_AND_FOUND)
    rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in ORDER}
    for row in file.rows(LOST_AND_FOUND, lost):
        rowid, values = _LostRow.of(row)
        table = table_of(values)
        if table is None:
            unknown += 1
            continue
        if table == "messages":
            values[0] = rowid
        if values[0] in present[table]:
            continue
        present[table].add(values[0])
        rows[table].append(tuple(values))
        if len(rows[table]) >= _SHAPE_BATCH:
            _write(file, table, rows[table])
        restored[table] = restored.get(table, 0) + 1
    for table, waiting in rows.items():
        _write(file, table, waiting)
    file.connection.execute(f"DROP TABLE {LOST_AND_FOUND}")
    return restored, unknown


def _present(file: RowFile, table: str) -> set[Any]:
    if not file.columns(table):
        return set()
    return {row[0] for row in file.rows(table, ("id",))}


def _write(file: RowFile, table: str, rows: list[tuple[Any, ...]]) -> None:
    """Write rows whose values are in column order; some may have fewer values."""
    if not rows:
        return
    columns = file.columns(table) or ORDER[table]
    file.make(table, columns)
    by_length: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        kept = row[: len(columns)]
        by_length.setdefault(len(kept), []).append(kept)
    for length, some in by_length.items():
        file.add(table, columns[:length], some)
    rows.clear()
