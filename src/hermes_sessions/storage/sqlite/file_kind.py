"""What a file is, as far as opening it is concerned, found out without changing it."""

from __future__ import annotations

import os
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from hermes_sessions.errors import StoreCorrupt
from hermes_sessions.storage.sqlite import schema

# A file without tables where a store has been: emptied, not new.
#
# Writers of a store take turns at a gate (`gate.py`), whose file lies beside it and is made by the
# first write after the tables are there. Whoever makes a new store removes the gate of one that is
# gone before there is a file. So a file without tables that has a gate once had tables, too;
# nobody who finds one that is just being made takes it for an emptied one, if the gate is looked
# for first.


class StoreEmptied(StoreCorrupt):
    """There was a store, and nothing of it is in the file any more. It was not changed."""


def require_not_emptied(path: Path, connection: apsw.Connection) -> None:
    """Refuse a file, open on *connection* and without tables, that had some before.

    Raises:
        StoreEmptied: it says what to do.
    """
    # (Looked at again: whoever makes a store may have come to its first write meanwhile.)
    if had_store(path) and identify_file(connection).kind is FileType.EMPTY:
        raise emptied(path)


def had_store(path: Path) -> bool:
    """Return whether a store of ours was written here."""
    return os.path.exists(_gate(path))


def emptied(path: Path) -> StoreEmptied:
    """Return what to raise for a file of which nothing is left."""
    what = "it is empty" if path.stat().st_size == 0 else "it has no tables any more"
    return StoreEmptied(
        f"{path}: {what}, but a store was here, as {_gate(path)} shows; nothing was changed. To "
        f"put a backup in its place: hermes backup list. To begin anew instead, remove the file."
    )


def remove_stale_gate(path: Path) -> None:
    """Remove the gate of a store that is gone, before another one is made in its place. (Who has
    the removed file open still loses nothing: a gate is about turns.)
    """
    with suppress(OSError):
        os.unlink(_gate(path))


def _gate(path: Path) -> str:
    # Beside the file itself, not beside a link to it.
    return f"{os.path.realpath(path)}.gate"


#: What every documented version has had since the first.
_CORE_COLUMNS: Final = {
    "sessions": {"id", "source", "started_at"},
    "messages": {"id", "session_id", "role", "content", "timestamp"},
    "schema_version": {"version"},
}


class FileType(Enum):
    """The kinds of files that are told apart."""

    EMPTY = "empty"
    OURS = "ours"
    #: Ours, without the marks in the header: made of a dump.
    UNMARKED = "unmarked"
    DOCUMENTED = "documented"
    LATER = "later"
    OTHER = "other"


class FileKind(NamedTuple):
    """A file's kind, and the schema version it states."""

    kind: FileType
    version: int = 0


def identify_file(connection: apsw.Connection) -> FileKind:
    """Return what the open file is, without changing it."""
    if connection.pragma("application_id") == schema.APPLICATION_ID:
        return FileKind(FileType.OURS, int(connection.pragma("user_version")))
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return FileKind(FileType.EMPTY)
    for table, columns in _CORE_COLUMNS.items():
        found = connection.execute("SELECT lower(name) FROM pragma_table_info(?)", (table,))
        if not columns <= {row[0] for row in found}:
            return FileKind(FileType.OTHER)
    if (steps := _steps_of_ours(connection)) is not None:
        # Which level it asks for was lost with the marks; steps that are not known need a new one.
        is_known = steps <= {step.name for step in schema.MIGRATIONS}
        return FileKind(FileType.UNMARKED, schema.WRITER_LEVEL + (0 if is_known else 1))
    version = _stated_version(connection)
    if version is None:
        return FileKind(FileType.OTHER)
    return FileKind(
        FileType.DOCUMENTED if version <= schema.DOCUMENTED_VERSION else FileType.LATER, version
    )


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
