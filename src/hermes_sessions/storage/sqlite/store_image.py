"""Whole copies of a SQLite store, made while others write, and what is in them.

With a write-ahead log the copy is made of one snapshot: nobody waits for it, and nothing is copied
twice. As long as it takes, the log cannot start over, so it grows by what is written meanwhile;
that is why nothing but copying happens then. With a rollback journal a snapshot would keep writers
from committing, so the copy is made in steps between which they get their turn; SQLite begins anew
after each of their commits, and when that has happened too often the copy is made in one go, for
which writers wait.
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
from hermes_sessions.storage.sqlite import schema
from hermes_sessions.storage.sqlite.error_translation import translate, translated
from hermes_sessions.storage.sqlite.file_access import create_private
from hermes_sessions.storage.sqlite.file_kind import FileType, identify_file
from hermes_sessions.storage.sqlite.transaction import ApswTransaction

logger = Logger(__name__)

_PAGES_AT_ONCE: Final = 2048
#: How many times the pages of a file may be copied before it is done in one go.
_PATIENCE: Final = 4
#: Bytes that are written to see whether there is room; more than any page has.
_PROBE: Final = 128 * 1024
#: Seconds in which a writer gets its turn between two steps.
_TURN: Final = 0.002

#: Called with how much is done, and how much there is.
Progress = Callable[[int, int], None]


@contextmanager
def snapshot(connection: apsw.Connection) -> Iterator[ApswTransaction]:
    """Lend a read of one state on a connection that is inside no transaction."""
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
    nobody_waits: bool,
    on_progress: Progress = lambda _done, _total: None,
) -> None:
    """Copy one state of the store that *connection* reads, inside a transaction, to a new file.

    Without *nobody_waits* the transaction would keep writers waiting, and is ended first.
    """
    create_private(target)
    copy = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        # Until it has its name it may be lost at any time.
        copy.pragma("journal_mode", "off")
        copy.pragma("synchronous", "off")
        if nobody_waits:
            before = _counts(connection)
            copy_pages(connection, copy, on_progress)
            if _counts(copy) != before:
                raise StoreIOError(
                    f"{target} does not hold what was written to it. Check the disk."
                )
        else:
            connection.execute("COMMIT")
            if not _copy_in_turns(connection, copy, on_progress):
                logger.warning("the store is written all the time; writers wait for its backup")
                connection.execute("BEGIN")
                _counts(connection)
                copy_pages(connection, copy, on_progress)
    except (apsw.IOError, apsw.FullError) as error:
        # SQLite does not always say why the copy failed.
        copy.close()
        _require_room(target)
        raise translate(error, str(target)) from error
    finally:
        copy.close()
    clear_wal_mark(target)


def _require_room(target: Path) -> None:
    """Raise what the system says when a file of ours cannot become longer."""
    with target.open("ab") as file:
        file.write(bytes(_PROBE))


def clear_wal_mark(image: Path) -> None:
    """Let a file that nobody uses say that it has no log: an image is one file."""
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
    """Make one database the same as another, in one transaction."""
    with copy.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(_PAGES_AT_ONCE)
            on_progress(backup.page_count - backup.remaining, backup.page_count)


def _copy_in_turns(source: apsw.Connection, copy: apsw.Connection, on_progress: Progress) -> bool:
    """Copy in steps between which writers get their turn; return whether that came to an end."""
    # What is copied at first: whoever writes all the time also lets the file grow.
    steps = pages = 0
    backup = copy.backup("main", source, "main")
    try:
        while not backup.done:
            with suppress(apsw.BusyError):  # Somebody commits; that counts as a step, too.
                backup.step(_PAGES_AT_ONCE)
            on_progress(backup.page_count - backup.remaining, backup.page_count)
            steps += 1
            pages = pages or backup.page_count
            if steps * _PAGES_AT_ONCE > _PATIENCE * pages + _PAGES_AT_ONCE:
                return bool(backup.done)
            if not backup.done:
                time.sleep(_TURN)
    finally:
        # What failed was raised by its step. That the last one found somebody in the way is told
        # again here, and matters to nobody any more.
        backup.close(True)
    return True


def _counts(connection: apsw.Connection) -> dict[str, int]:
    found = {}
    for table in _ordinary_tables(connection):
        row: Any = connection.execute(f"SELECT COUNT(*) FROM {_quoted(table)}").fetchone()
        found[table] = int(row[0])
    return found


def _ordinary_tables(connection: apsw.Connection) -> list[str]:
    """Return the tables but those of the search index, which is derived and can be made anew."""
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' "
        "AND type NOT IN ('virtual', 'shadow', 'view') ORDER BY name"
    ).fetchall()
    return [row[0] for row in rows]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def opened_image(image: Path) -> Iterator[apsw.Connection]:
    """Lend a connection to a file that nobody writes, and which is not trusted."""
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
    """Lend a transaction that reads a file which nobody writes.

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
    if level > schema.WRITER_LEVEL:
        raise SchemaRefused(
            f"The store was written by a newer Hermes Sessions (level {level}, this program knows "
            f"{schema.WRITER_LEVEL}). Update this program, then try again."
        )


def check_image(image: Path) -> None:
    """Check that a file is a store of ours, and every table of it with its indexes.

    Raises:
        StoreCorrupt, NotADatabase: it is not, and why.
    """
    with opened_image(image) as connection:
        if identify_file(connection).kind is not FileType.OURS:
            raise StoreCorrupt(f"{image} is no store of Hermes Sessions.")
        for table in _ordinary_tables(connection):
            findings = connection.execute(f"PRAGMA integrity_check({_quoted(table)})").fetchall()
            if findings != [("ok",)]:
                raise StoreCorrupt(
                    f"database disk image is malformed in table {table} ({findings[0][0]})"
                )
