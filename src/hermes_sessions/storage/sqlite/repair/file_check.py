"""Finds damage by reading a whole file without changing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import apsw

from hermes_sessions.errors import ImportRefused, StoreError
from hermes_sessions.storage.care.repair.report import FileFinding
from hermes_sessions.storage.sqlite.file_kind import FileType, had_store, identify_file
from hermes_sessions.storage.sqlite.migrations import APPLICATION_ID
from hermes_sessions.storage.sqlite.read_only_file import is_database, reading
from hermes_sessions.storage.sqlite.row_scan import has_zeroed_part, quoted, rows_of
from hermes_sessions.storage.sqlite.wal_files import WalState, inspect_wal

#: Messages for a table with damaged texts.
NO_TEXT: Final = "a text in it is not UTF-8"
ZEROS: Final = "a part of a text in it is zeros"
_MOST: Final = 100
_LISTED: Final = 3
_SEARCH: Final = ("search_index", "search_state", "search_queue", "search_titles")
_DAMAGE: Final = (apsw.CorruptError, apsw.IOError, apsw.SQLError, apsw.NotADBError)


def check_file(path: Path) -> list[FileFinding]:
    """Return the problems of a file that others may be using; it is not changed.

    Raises:
        StoreError: it cannot be read, for a reason other than damage.
    """
    if not is_database(path):
        return [FileFinding("header", "", "the file does not start like a database")]
    findings = wal_findings(inspect_wal(Path(f"{path.resolve()}-wal")))
    try:
        with reading(path) as connection:
            findings += check_connection(connection)
            findings += emptied_findings(path, connection)
    except StoreError as error:
        if isinstance(error.__cause__, _DAMAGE):
            return [*findings, FileFinding("file", "", str(error.__cause__))]
        raise
    except ImportRefused as error:
        # It was written meanwhile, so the result mixes several states.
        return [*findings, FileFinding("file", "", str(error))] if findings else []
    return findings


def check_copy(path: Path, original: Path) -> list[FileFinding]:
    """Return the problems of a private copy of *original*; a journal beside it is applied."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error as error:
        return [_of_the_whole(error)]
    try:
        connection.pragma("trusted_schema", 0)
        return check_connection(connection) or emptied_findings(original, connection)
    finally:
        connection.close(True)


def wal_findings(state: WalState) -> list[FileFinding]:
    """Return the problems of a write-ahead log."""
    if not state.is_damaged:
        return []
    if state.is_header_damaged:
        detail = f"its beginning is damaged; SQLite would ignore all {state.frames} pages in it"
    else:
        first = min(state.damaged)
        detail = (
            f"page {first} of {state.frames} in it is damaged; SQLite would ignore everything "
            f"from there on"
        )
    return [FileFinding("log", "", detail)]


def emptied_findings(path: Path, connection: apsw.Connection) -> list[FileFinding]:
    """Return the problem of an emptied store: the file at *path*, or its copy open on *connection*,
    has no tables but used to have some.
    """
    if had_store(path) and identify_file(connection).kind is FileType.EMPTY:
        return [FileFinding("file", "", "it has no tables, but a store was here")]
    return []


def check_connection(connection: apsw.Connection) -> list[FileFinding]:
    """Return the problems of an open file."""
    try:
        whole = _lines(connection, "")
    except _DAMAGE as error:
        finding = _of_the_whole(error)
    else:
        if whole == ["ok"]:
            return _damaged_texts(connection)
        finding = FileFinding("file", "", _shown(whole))
    try:
        tables = _tables(connection)
    except _DAMAGE as error:
        return [_of_the_whole(error)]
    return [
        found for table in tables if (found := _check_table(connection, table)) is not None
    ] or [finding]


def _damaged_texts(connection: apsw.Connection) -> list[FileFinding]:
    """Return the tables of a store of ours with texts that are not UTF-8 or partly zeros.

    SQLite accepts those, but we never write them. Other programs did, in older layouts, which are
    read as they are.
    """
    if connection.pragma("application_id") != APPLICATION_ID:
        return []
    found = []
    for table in _tables(connection):
        if table.startswith(_SEARCH):
            continue
        try:
            for row in connection.execute(f"SELECT * FROM {quoted(table)}"):
                if any(has_zeroed_part(value) for value in row):
                    found.append(FileFinding("table", table, ZEROS))
                    break
        except UnicodeDecodeError:
            found.append(FileFinding("table", table, NO_TEXT))
    return found


def _of_the_whole(error: Exception) -> FileFinding:
    said = str(error)
    if isinstance(error, apsw.SQLError) or "schema" in said:
        return FileFinding("schema", "", said)
    if isinstance(error, apsw.NotADBError):
        return FileFinding("header", "", said)
    return FileFinding("file", "", said)


def _check_table(connection: apsw.Connection, table: str) -> FileFinding | None:
    try:
        lines = _lines(connection, f"({quoted(table)})")
    except _DAMAGE as error:
        lines = [str(error)]
    if lines == ["ok"]:
        return None
    is_search = table.startswith(_SEARCH)
    return FileFinding("search" if is_search else "table", table, _shown(lines))


def _tables(connection: apsw.Connection) -> list[str]:
    rows = rows_of(connection, "sqlite_schema", ("name",), "WHERE type = 'table' ORDER BY rowid")
    return [str(row[0]) for row in rows]


def _lines(connection: apsw.Connection, which: str) -> list[str]:
    pragma = f"PRAGMA integrity_check{which or f'({_MOST})'}"
    found: list[tuple[Any, ...]] = connection.execute(pragma).fetchall()
    return [line for row in found for line in str(row[0]).splitlines()]


def _shown(lines: list[str]) -> str:
    texts = [line for line in lines if not line.startswith("*** in database")]
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return "; ".join(texts[:_LISTED]) + more
