"""Renders the declared tables as SQL for SQLite. A module of its own, because only the creation or
upgrade of a file needs it, not every start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from hermes_sessions.storage.sqlite import migrations
from hermes_sessions.storage.tables import (
    ALL_TABLES,
    MESSAGES,
    SEARCH_TABLES,
    SESSIONS,
    STALE_TABLES,
    TABLES,
    TABLES_BY_STEP,
    Column,
    Table,
    added_by,
)

_TYPES: Final = {
    "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "name": "TEXT",
    "text": "TEXT",
    "real": "REAL",
    "integer": "INTEGER",
    "bytes": "BLOB",
}
#: The name that numbered variants of a title share; see model.title.family_key.
_GENERATED: Final = {
    "title_key": """GENERATED ALWAYS AS (
        CASE
            WHEN length(rtrim(title, '0123456789')) < length(title)
                AND substr(rtrim(title, '0123456789'), -2) = ' #'
            THEN lower(substr(title, 1, length(rtrim(title, '0123456789')) - 2))
            ELSE lower(title)
        END) VIRTUAL""",
    "archived": "GENERATED ALWAYS AS (archived_at IS NOT NULL) VIRTUAL",
    "revision": "GENERATED ALWAYS AS (next_ordinal + rewind_count + change_count - 1) VIRTUAL",
}
#: What a later Hermes stores in a column that is generated here.
_REPLACED: Final = {
    "archived": "UPDATE sessions SET archived_at = COALESCE(last_active, started_at) "
    "WHERE archived <> 0 AND archived_at IS NULL; ALTER TABLE sessions DROP COLUMN archived;"
}
_OWN_TABLES: Final = """
CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS store_migrations (
    name TEXT PRIMARY KEY,
    applied_at REAL NOT NULL
);
"""


def declaration(table: Table, column: Column) -> str:
    """Return the SQL of a column for CREATE TABLE and ALTER TABLE."""
    parts = [f'"{column.name}"', _TYPES[column.kind]]
    if (column.name,) == table.key and table.sqlite_key == "column":
        parts.append("PRIMARY KEY")
    elif column.required:
        parts.append("NOT NULL")
    if column.default is not None:
        parts.append(f"DEFAULT {column.default}")
    if column.references not in (None, table.name):
        parts.append(f"REFERENCES {column.references}(id)")
    if any(index.sqlite == "UNIQUE" and index.columns == (column.name,) for index in table.indexes):
        parts.append("UNIQUE")
    if column.generated:
        parts.append(_GENERATED[column.name])
    return " ".join(parts)


def _create(table: Table, *, unless_there: bool = False) -> str:
    lines = [declaration(table, column) for column in table.created_with()]
    if table.sqlite_key == "constraint" and table.columns[0].kind != "serial":
        lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
    lines += [
        f"FOREIGN KEY ({column.name}) REFERENCES {table.name}(id)"
        for column in table.created_with()
        if column.references == table.name
    ]
    lines += [
        f"UNIQUE ({', '.join(index.columns)})"
        for index in table.indexes
        if index.sqlite == "UNIQUE" and len(index.columns) > 1
    ]
    condition = "IF NOT EXISTS " if unless_there else ""
    return f"CREATE TABLE {condition}{table.name} (\n    " + ",\n    ".join(lines) + "\n);"


def _indexes(tables: Sequence[Table], step: str | None = None) -> str:
    return "\n".join(
        f"CREATE {'UNIQUE ' if index.unique else ''}INDEX IF NOT EXISTS {index.name} "
        f"ON {table.name}{index.sqlite or '(' + ', '.join(index.columns) + ')'};"
        for table in tables
        for index in table.indexes_of(step)
        if index.sqlite not in ("UNIQUE", "none")
    )


def _complete(tables: Sequence[Table], *, unless_there: bool = False) -> str:
    created = [_create(table, unless_there=unless_there) for table in tables]
    return "\n".join((*created, _indexes(tables)))


def side_tables() -> str:
    """Return the tables beside ``sessions`` and ``messages``, for files that may have some."""
    beside = [table for table in TABLES if table not in (SESSIONS, MESSAGES)]
    return _OWN_TABLES + _complete(beside, unless_there=True)


def base_indexes() -> str:
    """Return the indexes of ``sessions`` and ``messages``."""
    return _indexes((SESSIONS, MESSAGES))


def base_tables() -> str:
    """Return the first migration."""
    created = _complete((SESSIONS, MESSAGES))
    version = f"INSERT INTO schema_version (version) VALUES ({migrations.DOCUMENTED_VERSION});"
    return f"{created}\n{side_tables()}\n{version}"


def search_notes() -> str:
    """Return the tables and triggers beside the search index; running it recreates missing ones."""
    return _complete(SEARCH_TABLES, unless_there=True) + migrations.SEARCH_TRIGGERS


def change_notes() -> str:
    """Return the table and triggers for changes by other programs; recreates missing ones."""
    return _complete(STALE_TABLES, unless_there=True) + migrations.CHANGE_TRIGGERS


def step(name: str, connection: apsw.Connection) -> str:
    """Return a migration that adds what is declared with its name to this file.

    A later Hermes that opened the file has added columns and tables of these names.
    """
    added: list[str] = []
    for table, column in added_by(name):
        found = connection.execute(
            "SELECT 1 FROM pragma_table_xinfo(?) WHERE name = ?", (table.name, column.name)
        ).get
        if found is None or column.generated:
            added += (_REPLACED[column.name],) if found else ()
            added.append(f"ALTER TABLE {table.name} ADD COLUMN {declaration(table, column)};")
    tables = _complete(TABLES_BY_STEP.get(name, ()), unless_there=True)
    return "\n".join((*added, _indexes(ALL_TABLES, name), tables))
