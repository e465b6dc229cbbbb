"""A file of rows without rules: what was read of a damaged one, before it is put in order.

Tables have their names and columns and nothing else, so that no row is refused. Rows that were
found without their table are in ``lost_and_found``, as SQLite's ``.recover`` calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import apsw

from hermes_sessions.storage.sqlite.repair.rows import rows_of
from hermes_sessions.storage.sqlite.row_scan import quoted

LOST_AND_FOUND: Final = "lost_and_found"
#: What stands before the values of such a row.
LOST_COLUMNS: Final = ("rootpgno", "pgno", "nfield", "id")
_BATCH: Final = 1000


class PlainFile:
    """Such a file, open for writing and reading; nobody else has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: By table: the column with the ids that its rows had in the damaged file, where known.
        self.row_ids: dict[str, str] = {}
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        self.connection = apsw.Connection(str(path), flags=flags)
        # A run that is interrupted starts anew, so nothing needs to survive one.
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
        """Return the columns of a table; none when it is missing."""
        found = self.connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return [str(row[0]) for row in found]

    def make(self, table: str, columns: Sequence[str]) -> None:
        """Make a table, unless there is one; columns that it lacks are added."""
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
        """Return how many rows a table has."""
        return int(self.connection.execute(f"SELECT COUNT(*) FROM {quoted(table)}").get)

    def rows(
        self, table: str, columns: Sequence[str], row_id: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table in the order in which they were written, or one of them."""
        one, given = ("", ()) if row_id is None else ("WHERE rowid = ? ", (row_id,))
        yield from rows_of(self.connection, table, columns, f"{one}ORDER BY rowid", given)


def _bindable(value: Any) -> Any:
    """Return text that is no UTF-8 as the bytes it was; reading it gives the text again."""
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogateescape")
    return value
