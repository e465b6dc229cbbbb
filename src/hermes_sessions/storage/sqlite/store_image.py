"""Whole copies of a SQLite store, made while others write.

With a write-ahead log the copy is made from one snapshot: no writer waits, and nothing is copied
twice. Meanwhile the log cannot restart and grows by all new writes, so only copying happens then.
With a rollback journal a snapshot would block commits. So the copy is made in steps, between which
writers get their turn. SQLite restarts the copy after each of their commits; after too many
restarts it is made in one go while writers wait.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_from_bytes

import apsw

from hermes_sessions.errors import SchemaRefused, StoreCorrupt, StoreIOError
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.error_translation import translate, translated
from hermes_sessions.storage.sqlite.file_access import create_private
from hermes_sessions.storage.sqlite.file_kind import FileType, identify_file
from hermes_sessions.storage.sqlite.row_scan import quoted
from hermes_sessions.storage.sqlite.transaction import ApswTransaction
from hermes_sessions.storage.tables import KNOWN_LEVEL

logger = Logger(__name__)

_PAGES_AT_ONCE: Final = 2048
#: How many times the pages of a file may be copied before it is done in one go.
_PATIENCE: Final = 4
#: Bytes written to test for free space; more than any page has.
_PROBE: Final = 128 * 1024
#: Seconds for a writer's turn between two steps.
_TURN: Final = 0.002

#: Called with the amount done and the total.
Progress = Callable[[int, int], None]


@contextmanager
def snapshot(connection: apsw.Connection) -> Iterator[ApswTransaction]:
    """Lend a read of one snapshot on a connection that is not in a transaction."""
    connection.execute("BEGIN")
    try:
        yield ApswTransaction(connection)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def copy_snapshot(
    connection: apsw.Connection,
    target: Path,
    *,
    blocks_no_writer: bool,
    on_progress: Progress = lambda _done, _total: None,
) -> None:
    """Copy the snapshot that *connection* reads, inside a transaction, to a new file.

    Without *blocks_no_writer* the transaction would block writers, and is ended first.
    """
    create_private(target)
    copy = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        # Durability is not needed until the copy gets its name.
        copy.pragma("journal_mode", "off")
        copy.pragma("synchronous", "off")
        if blocks_no_writer:
            before = _counts(connection)
            copy_pages(connection, copy, on_progress)
            if _counts(copy) != before:
                raise StoreIOError(
                    f"{target} does not contain what was written to it. Check the disk."
                )
        else:
            connection.execute("COMMIT")
            if not _copy_in_turns(connection, copy, on_progress):
                logger.warning("The store is written continuously; writers wait for its backup")
                connection.execute("BEGIN")
                _counts(connection)
                copy_pages(connection, copy, on_progress)
    except (apsw.IOError, apsw.FullError) as error:
        # SQLite does not always tell why the copy failed.
        copy.close()
        _require_room(target)
        raise translate(error, str(target)) from error
    finally:
        copy.close()
    clear_wal_mark(target)


def _require_room(target: Path) -> None:
    """Raise the system's error if a file of ours cannot grow."""
    with target.open("ab") as file:
        file.write(bytes(_PROBE))


def clear_wal_mark(image: Path) -> None:
    """Clear the WAL mode in the header of an unused file: an image is a single file."""
    with (
        translated(str(image)),
        closing(apsw.Connection(str(image), flags=apsw.SQLITE_OPEN_READWRITE)) as connection,
    ):
        connection.pragma("journal_mode", "delete")


def _silent(_done: int, _total: int) -> None:
    pass


def copy_pages(
    source: apsw.Connection, copy: apsw.Connection, on_progress: Progress = _silent
) -> None:
    """Make one database equal to another, in one transaction."""
    with copy.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(_PAGES_AT_ONCE)
            on_progress(backup.page_count - backup.remaining, backup.page_count)


def _copy_in_turns(source: apsw.Connection, copy: apsw.Connection, on_progress: Progress) -> bool:
    """Copy in steps, between which writers get their turn; return whether it completed."""
    # The initial number of pages: continuous writes also make the file grow.
    steps = pages = 0
    backup = copy.backup("main", source, "main")
    try:
        while not backup.done:
            with suppress(apsw.BusyError):  # A writer commits; that counts as a step, too.
                backup.step(_PAGES_AT_ONCE)
            on_progress(backup.page_count - backup.remaining, backup.page_count)
            steps += 1
            pages = pages or backup.page_count
            if steps * _PAGES_AT_ONCE > _PATIENCE * pages + _PAGES_AT_ONCE:
                return bool(backup.done)
            if not backup.done:
                time.sleep(_TURN)
    finally:
        # Real failures were raised by their step. Closing reports again that a writer was in the
        # way of the last one, which no longer matters.
        backup.close(True)
    return True


def _counts(connection: apsw.Connection) -> dict[str, int]:
    found = {}
    for table in _ordinary_tables(connection):
        row: Any = connection.execute(f"SELECT COUNT(*) FROM {quoted(table)}").fetchone()
        found[table] = int(row[0])
    return found


def _ordinary_tables(connection: apsw.Connection) -> list[str]:
    """Return the tables except those of the search index, which is derived and can be rebuilt."""
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' "
        "AND type NOT IN ('virtual', 'shadow', 'view') ORDER BY name"
    ).fetchall()
    return [row[0] for row in rows]


@contextmanager
def opened_image(image: Path) -> Iterator[apsw.Connection]:
    """Lend a connection to an untrusted file that no program writes."""
    name = quote_from_bytes(os.fsencode(image))
    with translated(str(image)):
        connection = apsw.Connection(
            f"file:{name}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        )
        try:
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            connection.pragma("cell_size_check", "ON")
            connection.pragma("query_only", "ON")
            yield connection
        finally:
            connection.close(True)


@contextmanager
def reading_image(image: Path) -> Iterator[ApswTransaction]:
    """Lend a transaction that reads a file that no program writes.

    Raises:
        StoreCorrupt, NotADatabase, StoreError: it cannot be read.
    """
    with opened_image(image) as connection:
        yield ApswTransaction(connection)


def require_known_level(image: Path) -> None:
    """Refuse a store that this version must not write.

    Raises:
        SchemaRefused: a newer version made it.
    """
    with opened_image(image) as connection:
        level = identify_file(connection).version
    if level > KNOWN_LEVEL:
        raise SchemaRefused(
            f"The store was written by a newer Hermes Sessions (level {level}, this program knows "
            f"{KNOWN_LEVEL}). Update this program, then try again."
        )


def check_image(image: Path) -> None:
    """Check that a file is a store of ours, and each of its tables with its indexes.

    Raises:
        StoreCorrupt, NotADatabase: it is not; the message says why.
    """
    with opened_image(image) as connection:
        if identify_file(connection).kind is not FileType.OURS:
            raise StoreCorrupt(f"{image} is not a Hermes Sessions store.")
        for table in _ordinary_tables(connection):
            findings = connection.execute(f"PRAGMA integrity_check({quoted(table)})").fetchall()
            if findings != [("ok",)]:
                raise StoreCorrupt(
                    f"database disk image is malformed in table {table} ({findings[0][0]})"
                )
