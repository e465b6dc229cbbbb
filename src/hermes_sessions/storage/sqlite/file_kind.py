"""Identifies what a file is before it is opened as a store, without changing it."""

import os
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from hermes_sessions.errors import StoreCorrupt
from hermes_sessions.storage.sqlite import migrations
from hermes_sessions.storage.tables import ATTACHMENTS_LEVEL, ATTACHMENTS_STEP, KNOWN_LEVEL

# A file without tables where a store used to be is an emptied store, not a new one.
#
# Writers of a store take turns at a gate (`writer_gate.py`), a file beside the store that the first
# write after table creation makes. Creating a new store removes a stale gate before the file
# exists. So a file without tables that has a gate once had tables. To avoid mistaking a store that
# is just being created for an emptied one, look for the gate first.


class StoreEmptied(StoreCorrupt):
    """A store was here, and its file is now empty. It was not changed."""


def require_not_emptied(path: Path, connection: apsw.Connection) -> None:
    """Refuse a file, open on *connection* and without tables, that used to have some.

    Raises:
        StoreEmptied: the message says what to do.
    """
    # (Checked again: a process creating the store may have reached its first write meanwhile.)
    if had_store(path) and identify_file(connection).kind is FileType.EMPTY:
        raise emptied(path)


def had_store(path: Path) -> bool:
    """Return whether a store of ours was written here."""
    return os.path.exists(_gate(path))


def emptied(path: Path) -> StoreEmptied:
    """Return the error for an emptied file."""
    what = "it is empty" if path.stat().st_size == 0 else "it has no tables any more"
    return StoreEmptied(
        f"{path}: {what}, but a store was here, as {_gate(path)} shows; nothing was changed. To "
        f"restore a backup: hermes backup list. To start with an empty store, remove the file."
    )


def remove_stale_gate(path: Path) -> None:
    """Remove the gate of a deleted store before a new one is created in its place.

    Processes that still have the removed file open lose only fairness.
    """
    with suppress(OSError):
        os.unlink(_gate(path))


def _gate(path: Path) -> str:
    # Beside the file itself, not beside a link to it.
    return f"{os.path.realpath(path)}.gate"


#: Columns of every documented version since the first.
_CORE_COLUMNS: Final = {
    "sessions": {"id", "source", "started_at"},
    "messages": {"id", "session_id", "role", "content", "timestamp"},
    "schema_version": {"version"},
}


#: hermes-agent opens the file itself for these, sometimes before there are sessions.
_SIDE_TABLES: Final = {"async_delegations", "delivery_obligations", "sqlite_sequence"}


class FileType(Enum):
    """The kinds of files that are distinguished."""

    EMPTY = "empty"
    #: Only tables that modules of hermes-agent keep beside the sessions: it runs before a store.
    SIDE_TABLES = "side tables"
    OURS = "ours"
    #: Ours, but without the marks in the header: restored from a dump.
    UNMARKED = "unmarked"
    DOCUMENTED = "documented"
    LATER = "later"
    OTHER = "other"


class FileKind(NamedTuple):
    """A file's type, and the schema version it states."""

    kind: FileType
    version: int = 0

    @property
    def is_new(self) -> bool:
        """Whether a store can be created in the file; what is there stays."""
        return self.kind in (FileType.EMPTY, FileType.SIDE_TABLES)


def identify_file(connection: apsw.Connection) -> FileKind:
    """Identify the open file without changing it."""
    if connection.pragma("application_id") == migrations.APPLICATION_ID:
        return FileKind(FileType.OURS, int(connection.pragma("user_version")))
    tables = {row[0].lower() for row in connection.execute("SELECT tbl_name FROM sqlite_master")}
    if tables <= _SIDE_TABLES:
        return FileKind(FileType.SIDE_TABLES if tables else FileType.EMPTY)
    for table, columns in _CORE_COLUMNS.items():
        found = connection.execute("SELECT lower(name) FROM pragma_table_info(?)", (table,))
        if not columns <= {row[0] for row in found}:
            return FileKind(FileType.OTHER)
    if (steps := _steps_of_ours(connection)) is not None:
        # The dump lost the required level; unknown migrations mean that a newer version wrote it.
        level = ATTACHMENTS_LEVEL if ATTACHMENTS_STEP in steps else migrations.WRITER_LEVEL
        is_known = steps <= {ATTACHMENTS_STEP, *(step.name for step in migrations.MIGRATIONS)}
        return FileKind(FileType.UNMARKED, level if is_known else KNOWN_LEVEL + 1)
    version = _stated_version(connection)
    if version is None:
        return FileKind(FileType.OTHER)
    return FileKind(
        FileType.DOCUMENTED if version <= migrations.DOCUMENTED_VERSION else FileType.LATER, version
    )


def _steps_of_ours(connection: apsw.Connection) -> set[str] | None:
    """Return the migrations applied to a store of ours, None for any other file."""
    found = connection.execute("SELECT lower(name) FROM pragma_table_info('sessions')")
    if not {"conversation_id", "next_ordinal"} <= {row[0] for row in found}:
        return None
    found = connection.execute("SELECT lower(name) FROM pragma_table_info('store_migrations')")
    if "name" not in {row[0] for row in found}:
        return None
    steps = {str(row[0]) for row in connection.execute("SELECT name FROM store_migrations")}
    return steps if migrations.MIGRATIONS[0].name in steps else None


def _stated_version(connection: apsw.Connection) -> int | None:
    """Return the version, 1 if none is stated, None if the value is not a version."""
    row = connection.execute(
        "SELECT version FROM schema_version ORDER BY 1 DESC LIMIT 1"
    ).fetchone()
    try:
        return 1 if row is None or row[0] is None else max(1, int(row[0]))
    except ValueError:
        return None
