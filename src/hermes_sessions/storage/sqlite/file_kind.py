"""What a file is, as far as opening it is concerned, found out without changing it."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

import apsw

from hermes_sessions.storage.sqlite import schema

#: What every documented version has had since the first.
_CORE_COLUMNS: Final = {
    "sessions": {"id", "source", "started_at"},
    "messages": {"id", "session_id", "role", "content", "timestamp"},
    "schema_version": {"version"},
}


class Kind(Enum):
    """The kinds of files that are told apart."""

    EMPTY = "empty"
    OURS = "ours"
    #: Ours, without the marks in the header: made of a dump.
    UNMARKED = "unmarked"
    DOCUMENTED = "documented"
    LATER = "later"
    OTHER = "other"


class Nature(NamedTuple):
    """A file's kind, and the schema version it states."""

    kind: Kind
    version: int = 0


def nature_of(connection: apsw.Connection) -> Nature:
    """Return what the open file is, without changing it."""
    if connection.pragma("application_id") == schema.APPLICATION_ID:
        return Nature(Kind.OURS, int(connection.pragma("user_version")))
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return Nature(Kind.EMPTY)
    for table, columns in _CORE_COLUMNS.items():
        found = connection.execute("SELECT lower(name) FROM pragma_table_info(?)", (table,))
        if not columns <= {row[0] for row in found}:
            return Nature(Kind.OTHER)
    if (steps := _steps_of_ours(connection)) is not None:
        # Which level it asks for was lost with the marks; steps that are not known need a new one.
        is_known = steps <= {step.name for step in schema.MIGRATIONS}
        return Nature(Kind.UNMARKED, schema.WRITER_LEVEL + (0 if is_known else 1))
    version = _stated_version(connection)
    if version is None:
        return Nature(Kind.OTHER)
    return Nature(Kind.DOCUMENTED if version <= schema.DOCUMENTED_VERSION else Kind.LATER, version)


def _steps_of_ours(connection: apsw.Connection) -> set[str] | None:
    """Return the steps that a store of ours has taken, None if the file is none."""
    found = connection.execute("SELECT lower(name) FROM pragma_table_info('sessions')")
    if not {"conversation_id", "next_ordinal"} <= {row[0] for row in found}:
        return None
    found = connection.execute("SELECT lower(name) FROM pragma_table_info('store_migrations')")
    if "name" not in {row[0] for row in found}:
        return None
    steps = {str(row[0]) for row in connection.execute("SELECT name FROM store_migrations")}
    return steps if schema.MIGRATIONS[0].name in steps else None


def _stated_version(connection: apsw.Connection) -> int | None:
    """Return the version, 1 when none is stated, None when it is not a version at all."""
    row = connection.execute(
        "SELECT version FROM schema_version ORDER BY 1 DESC LIMIT 1"
    ).fetchone()
    try:
        return 1 if row is None or row[0] is None else max(1, int(row[0]))
    except ValueError:
        return None
