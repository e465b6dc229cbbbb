"""Tables that are declared for every database, as SQLite creates them."""

from __future__ import annotations

from typing import Final

from hermes_sessions.storage.tables import (
    ERASURE_TABLES,
    FENCE,
    GATEWAY_TABLES,
    HOLD_TABLES,
    LIFECYCLE_TABLES,
    Column,
    Table,
)

_TYPES: Final = {
    "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "name": "TEXT",
    "text": "TEXT",
    "real": "REAL",
    "integer": "INTEGER",
}


def _column(column: Column) -> str:
    parts = [f'"{column.name}"', _TYPES[column.kind]]
    if column.required:
        parts.append("NOT NULL")
    if column.default is not None:
        parts.append(f"DEFAULT {column.default}")
    return " ".join(parts)


def _declared(table: Table) -> str:
    """Return the statements that create a table as it is declared for every database."""
    lines = [_column(column) for column in table.columns]
    if not any(column.kind == "serial" for column in table.columns):
        lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
    statements = [f"CREATE TABLE {table.name} (\n    " + ",\n    ".join(lines) + "\n);"]
    for index in table.indexes:
        unique = "UNIQUE " if index.unique else ""
        statements.append(
            f"CREATE {unique}INDEX {index.name} ON {table.name}({', '.join(index.columns)});"
        )
    return "\n".join(statements)


LIFECYCLE: Final = f"ALTER TABLE sessions ADD COLUMN {_column(FENCE)};\n" + "\n".join(
    _declared(table) for table in LIFECYCLE_TABLES
)
GATEWAY: Final = "\n".join(_declared(table) for table in GATEWAY_TABLES)
ERASURE: Final = "\n".join(_declared(table) for table in ERASURE_TABLES)
HOLDS: Final = "\n".join(_declared(table) for table in HOLD_TABLES)
