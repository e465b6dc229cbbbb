"""The declared tables of servers match those of a SQLite file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from hermes_sessions.storage.tables import ALL_TABLES, Table

_KINDS = {
    "TEXT": {"text", "name"},
    "REAL": {"real"},
    "INTEGER": {"integer", "serial"},
    "BLOB": {"bytes"},
}


@pytest.mark.parametrize("table", ALL_TABLES, ids=lambda table: table.name)
def test_columns(tmp_path: Path, table: Table) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        assert isinstance(db.provider, SQLiteSessionDBProvider)
        with db.provider.reading_connection() as connection:
            found = {
                row[1]: (row[2], bool(row[3]), row[4])
                for row in connection.execute(f'PRAGMA table_info("{table.name}")')
            }
    columns = [column for column in table.columns if not column.generated]
    assert list(found) == [column.name for column in columns]
    for column in columns:
        kind, required, default = found[column.name]
        assert column.kind in _KINDS[kind], column.name
        if column.name not in table.key:
            assert column.required == required, column.name
        assert str(column.default) == str(default), column.name


def test_every_table_is_declared(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db, db.provider.read() as tx:
        names = {
            row[0]
            for row in tx.all(
                "SELECT name FROM sqlite_schema WHERE type = ? AND name NOT LIKE ?",
                ("table", "sqlite_%"),
            )
        }
    declared = {table.name for table in ALL_TABLES}
    here_only = {"schema_version", "store_migrations"}
    assert {name for name in names if not name.startswith("search_index")} - here_only == declared
