"""Rows of which the tool read less than they hold.

It gives a text as far as its pages lead, ends it at the first NUL, and says nothing. But a row says
at its beginning how long each of its texts is, on a page of its own table: so what came out can be
compared with that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from hermes_sessions.storage.sqlite.repair.disk_format import carve_lengths
from hermes_sessions.storage.sqlite.repair.row_file import LOST_AND_FOUND, LOST_COLUMNS, PlainFile
from hermes_sessions.storage.sqlite.row_scan import quoted

#: Derived, and made anew.
_DERIVED: Final = ("search_", "messages_fts", "stale_sessions")


def shortened_rows(copy: Path, page_size: int, file: PlainFile) -> Iterator[tuple[str, int]]:
    """Yield table and row id of the rows in *file*, read from *copy*, whose texts have not the
    lengths that they have there. Where the beginning of a row is lost, nothing is known of it.
    """
    connection = file.connection
    connection.execute("CREATE TEMP TABLE declared (row_id INTEGER, lengths TEXT)")
    with connection:
        connection.executemany(
            "INSERT INTO declared VALUES (?, ?)",
            (
                (row_id, "".join(f"{length} " for length in lengths))
                for row_id, lengths in carve_lengths(copy, page_size)
            ),
        )
    connection.execute("CREATE INDEX temp.by_row_id ON declared (row_id)")
    for table, columns in file.tables().items():
        if table == LOST_AND_FOUND:
            yield from _shortened(file, table, "id", columns[len(LOST_COLUMNS) :])
        elif table in file.row_ids and not is_derived(table):
            yield from _shortened(file, table, file.row_ids[table], columns)
    connection.execute("DROP TABLE temp.declared")


def is_derived(table: str) -> bool:
    """Return whether a table holds nothing that is not in others."""
    return table.lower().startswith(_DERIVED)


def _shortened(
    file: PlainFile, table: str, key: str, columns: Sequence[str]
) -> list[tuple[str, int]]:
    """Return the rows whose *columns* have not the lengths that the row with the id *key* has."""
    name = quoted(table)
    lengths = " || ".join(
        f"CASE typeof({column}) WHEN 'text' THEN octet_length({column}) || ' ' ELSE '' END"
        for column in (f"{name}.{quoted(column)}" for column in columns)
    )
    here = f"FROM declared WHERE row_id = {name}.{quoted(key)}"
    found = file.connection.execute(
        f"SELECT rowid FROM {name} WHERE EXISTS (SELECT 1 {here}) "
        f"AND NOT EXISTS (SELECT 1 {here} AND lengths = {lengths})"
    ).fetchall()
    return [(table, int(str(row[0]))) for row in found]
