"""Reads a damaged file with ``.recover`` of the ``sqlite3`` tool, if it is installed.

The tool runs as a separate process on a private copy. Its output is not executed as it is: only its
rows are inserted, into tables without constraints, and nothing in the file can run code.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final

import apsw

from hermes_sessions.errors import StoreIOError
from hermes_sessions.storage.batches import MAX_WORK_SECONDS
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.repair.disk_format import carve_lengths
from hermes_sessions.storage.sqlite.repair.row_file import LOST_AND_FOUND, LOST_COLUMNS, RowFile
from hermes_sessions.storage.sqlite.row_scan import quoted

# Rows that the tool truncated.
#
# It returns a text as far as its pages lead, ends it at the first NUL, and reports nothing. But a
# row starts with the length of each of its texts, on a page of its own table, so the output can be
# compared with that.

#: Derived tables, which are rebuilt.
_DERIVED: Final = ("search_", "messages_fts", "stale_sessions")


def truncated_rows(copy: Path, page_size: int, file: RowFile) -> Iterator[tuple[str, int]]:
    """Yield table and row id of the rows in *file* whose texts have other lengths than in *copy*.

    If the beginning of a row is lost, it cannot be compared.
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
    """Return whether a table contains only derived data."""
    return table.lower().startswith(_DERIVED)


def _shortened(
    file: RowFile, table: str, key: str, columns: Sequence[str]
) -> list[tuple[str, int]]:
    """Return the rows whose *columns* have other lengths than the row with the id *key*."""
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


logger = Logger(__name__)

TOOL: Final = "sqlite3"
_PATIENCE: Final = 60.0
#: The user's own configuration of the tool is ignored.
_ARGUMENTS: Final = ("-batch", "-init", os.devnull)
#: Free pages contain deleted data, which stays deleted.
_COMMAND: Final = ".recover --ignore-freelist"
_INTO: Final = re.compile(r"INSERT (?:OR IGNORE )?INTO '?(?P<table>(?:[^'\s(]|'')+)'?[\s(]")
_TABLE: Final = re.compile(r"CREATE TABLE ", re.IGNORECASE)
_PRAGMA: Final = re.compile(r"PRAGMA (?P<name>user_version|application_id) = '(?P<value>-?\d+)'")
#: Functions in the tool's statements: text is split at line ends.
_FUNCTIONS: Final = frozenset({"replace", "char", "unistr", "unistr_quote"})


def find_recover_tool(program: str = TOOL) -> str | None:
    """Return the path of a tool that supports ``.recover``; many builds do not."""
    found = shutil.which(program)
    if found is None:
        return None
    with tempfile.TemporaryDirectory(prefix="hermes-repair-") as folder:
        sample = Path(folder) / "sample.db"
        connection = apsw.Connection(str(sample))
        connection.execute("CREATE TABLE proof (word); INSERT INTO proof VALUES ('recovered')")
        connection.close()
        try:
            done = subprocess.run(
                [found, *_ARGUMENTS, str(sample), _COMMAND],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            logger.info("%s cannot be used: %s", found, error)
            return None
    if done.returncode == 0 and b"'recovered'" in done.stdout:
        return found
    logger.info("%s cannot recover: %s", found, done.stderr.decode(errors="replace").strip())
    return None


def recover_with(
    tool: str, copy: Path, into: RowFile, on_rows: Callable[[int], None]
) -> list[tuple[str, int]]:
    """Let *tool* read the private *copy*, and write its rows *into* a row file.

    Returns table and row id there of rows with a text that is not UTF-8 and was altered.

    Raises:
        StoreIOError: the tool failed or was stopped after hours.
    """
    changed: list[tuple[str, int]] = []
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [tool, *_ARGUMENTS, str(copy), _COMMAND],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
        )
        # It may run forever on a damaged file.
        over = threading.Timer(MAX_WORK_SECONDS, process.kill)
        over.daemon = True
        over.start()
        try:
            if process.stdout is not None:
                changed = _take(_statements(process.stdout), into, on_rows)
            code = process.wait()
        finally:
            over.cancel()
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        complaints.seek(0)
        said = complaints.read(2000).decode(errors="replace").strip()
    if code != 0:
        raise StoreIOError(f"{tool} did not finish (exit code {code}): {said}")
    if said:
        logger.info("%s: %s", tool, said)
    return changed


def _statements(output: IO[bytes]) -> Iterator[str]:
    pending: list[str] = []
    for line in output:
        pending.append(line.decode("utf-8", "surrogateescape"))
        # A statement can only be complete where a line ends with a semicolon.
        if line.rstrip().endswith(b";"):
            statement = "".join(pending)
            if apsw.complete(statement.encode("utf-8", "replace").decode()):
                yield statement.strip()
                pending.clear()


def _take(
    statements: Iterator[str], into: RowFile, on_rows: Callable[[int], None]
) -> list[tuple[str, int]]:
    connection = into.connection
    changed: list[tuple[str, int]] = []
    scratch = apsw.Connection(":memory:")
    done = 0
    connection.execute("BEGIN")
    connection.authorizer = _allow_rows_alone
    try:
        for statement in statements:
            if (found := _INTO.match(statement)) is not None:
                name = found["table"].replace("''", "'")
                if not name.lower().startswith("sqlite_") or name.lower() == "sqlite_sequence":
                    if _insert(connection, statement, name) and not _is_unicode(statement):
                        changed.append((_made_as(name), connection.last_insert_rowid()))
                    done += 1
                    on_rows(done)
            elif _TABLE.match(statement):
                connection.authorizer = None
                _make_table(scratch, statement, into)
                connection.authorizer = _allow_rows_alone
            elif (stated := _PRAGMA.match(statement)) is not None:
                connection.authorizer = None
                connection.pragma(stated["name"], int(stated["value"]))
                connection.authorizer = _allow_rows_alone
    finally:
        connection.authorizer = None
        scratch.close()
    connection.execute("COMMIT")
    return changed


def _is_unicode(statement: str) -> bool:
    try:
        statement.encode()
    except UnicodeEncodeError:
        return False
    return True


def _made_as(name: str) -> str:
    """Return the name of a table here: some names are reserved for SQLite."""
    return "hermes_sequence" if name.lower() == "sqlite_sequence" else name


def _insert(connection: apsw.Connection, statement: str, name: str) -> bool:
    statement = statement.replace(name, _made_as(name), 1)
    try:
        connection.execute(statement.encode("utf-8", "replace").decode())
    except apsw.SQLError as error:
        logger.info("A row of %s was not understood: %s", name, error)
        return False
    return True


def _make_table(scratch: apsw.Connection, statement: str, into: RowFile) -> None:
    """Create a table with the columns that *statement* declares, without constraints."""
    if re.match(r"CREATE TABLE sqlite_sequence", statement):
        into.make("hermes_sequence", ("name", "seq"))
        return
    before = {row[0] for row in scratch.execute("SELECT name FROM sqlite_schema")}
    try:
        scratch.execute(statement.encode("utf-8", "replace").decode())
    except apsw.Error as error:
        logger.info("A table was not understood: %s", error)
        return
    for (name,) in scratch.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table'"
    ).fetchall():
        if name not in before and not str(name).startswith("sqlite_"):
            columns = scratch.execute(
                "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (name,)
            )
            into.make(str(name), [str(row[0]) for row in columns])
            if (key := _row_id_column(scratch, str(name))) is not None:
                into.row_ids[str(name)] = key


def _row_id_column(connection: apsw.Connection, table: str) -> str | None:
    """Return the column that is an alias of the row id in the tool's output.

    Without one, the tool writes the row id itself, if there is one.
    """
    keys = connection.execute(
        "SELECT lower(type), name FROM pragma_table_info(?) WHERE pk > 0", (table,)
    ).fetchall()
    if len(keys) == 1 and keys[0][0] == "integer":
        return str(keys[0][1])
    listed = connection.execute("SELECT wr FROM pragma_table_list WHERE name = ?", (table,))
    return None if listed.get else "rowid"


def _allow_rows_alone(
    action: int, first: str | None, second: str | None, _database: str | None, _by: str | None
) -> int:
    if action == apsw.SQLITE_INSERT and not str(first).lower().startswith("sqlite_"):
        return apsw.SQLITE_OK
    if action == apsw.SQLITE_FUNCTION and str(second).lower() in _FUNCTIONS:
        return apsw.SQLITE_OK
    if action == apsw.SQLITE_SELECT:
        return apsw.SQLITE_OK
    return apsw.SQLITE_OK if action == apsw.SQLITE_TRANSACTION else apsw.SQLITE_DENY
