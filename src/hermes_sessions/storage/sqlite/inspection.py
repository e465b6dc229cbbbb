"""Inspect a file without changing a byte of it and without waiting for other programs.

A file that no program has open is read without locks; otherwise it is read beside the others, with
the log index that they made. Only if a log has no index, as in a copy, SQLite must create it
(``-shm``).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes

import apsw

from hermes_sessions.errors import (
    NotADatabase,
    StoreCorrupt,
    StoreError,
    StoreMissing,
)
from hermes_sessions.storage.file_inspection import (
    ChangedDuringInspection,
    Damage,
    InspectionTimeout,
    PageCheck,
    UnfinishedWrite,
)
from hermes_sessions.storage.provider import MigrationSteps
from hermes_sessions.storage.sqlite import file_access, migrations
from hermes_sessions.storage.sqlite.connection import wal_size
from hermes_sessions.storage.sqlite.error_translation import translate
from hermes_sessions.storage.sqlite.file_identity import FileIdentity
from hermes_sessions.storage.sqlite.file_kind import (
    FileKind,
    FileType,
    identify_file,
    require_not_emptied,
)
from hermes_sessions.storage.sqlite.migrations import applied_migrations
from hermes_sessions.storage.sqlite.transaction import ApswTransaction
from hermes_sessions.storage.sqlite.wal_files import require_intact_wal
from hermes_sessions.storage.tables import KNOWN_LEVEL

_MAGIC: Final = b"SQLite format 3\0"
#: The header byte for the kind of journal, and its value for a write-ahead log.
_JOURNAL_BYTE: Final = 18
_WAL: Final = 2
#: The bytes of a file in which table names are searched, and their form there.
_BEGINNING: Final = 1024 * 1024
_OURS: Final = (
    b"CREATE TABLE sessions",
    b"CREATE TABLE IF NOT EXISTS sessions",
    b"store_migrations",
)
#: SQLite calls back after this many steps of a statement, or after this many checked pages, not
#: counting overflow pages, of which there may be thousands per page.
_STEPS: Final = 100
_PAGES: Final = 10
#: The maximum number of damages listed.
_LISTED: Final = 20
_TREE: Final = re.compile(r"Tree (\d+)")
_IN_INDEX: Final = re.compile(r"(?:in|from) index (\S+)")
_WHOLE: Final = float("inf")
_OVER: Final = "the time limit was reached"


class FileInspection:
    """An inspection of one file. Not thread-safe."""

    def __init__(
        self,
        path: Path,
        *,
        until: float = _WHOLE,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """Statements raise `InspectionTimeout` once *stopwatch* reaches *until*.

        Raises:
            StoreMissing: the file does not exist.
            UnsafeStore: it belongs to another user.
            NotADatabase, StoreCorrupt: it cannot be read as a database.
            UnfinishedWrite: an unfinished write must be rolled back first.
            StoreLocked: another program excludes even readers.
            InspectionTimeout: its log is too long to examine in time.
            StoreUnavailable: it cannot be read.
        """
        self.path = path
        self._real = os.path.realpath(path)
        self._until = until
        self._stopwatch = stopwatch
        file_access.check_ownership(str(path))
        if file_access.inode_of(self._real) is None:
            raise StoreMissing(f"{path} does not exist.")
        require_intact_wal(path, abort_check=self._require_time)
        has_log = self._has_log()
        had_index = os.path.exists(f"{self._real}-shm")
        is_alone = has_log and not had_index and wal_size(self._real) == 0
        self._identity = FileIdentity(self._real, immutable=is_alone)
        self._parameter = "?immutable=1" if is_alone else "?readonly_shm=1" if had_index else ""
        with self._translated():
            self._connection = self._connect()
            try:
                self.file_kind: FileKind = identify_file(self._connection)
                if self.file_kind.kind is FileType.EMPTY:
                    require_not_emptied(path, self._connection)
            except BaseException:
                self._connection.close(True)
                raise

    def _require_time(self) -> None:
        if self._stopwatch() >= self._until:
            raise InspectionTimeout(_OVER)

    def close(self) -> None:
        """Close the file."""
        self._connection.close(True)

    @contextmanager
    def read(self) -> Iterator[ApswTransaction]:
        """Lend a consistent read; driver errors are translated."""
        with self._translated():
            self._connection.execute("BEGIN")
            try:
                yield ApswTransaction(self._connection)
            finally:
                self._connection.execute("ROLLBACK")

    def steps(self) -> MigrationSteps:
        """Return the migrations of the tables; one is pending if the layout is older."""
        if self.file_kind.kind is not FileType.OURS:
            return MigrationSteps.of([(step.name, False) for step in migrations.MIGRATIONS], ())
        with self._translated():
            taken = applied_migrations(self._connection)
        return MigrationSteps.of([(step.name, False) for step in migrations.MIGRATIONS], taken)

    @property
    def is_empty(self) -> bool:
        """Whether it has no tables of a store."""
        return self.file_kind.is_new

    @property
    def is_ours(self) -> bool:
        """Whether the tables belong to this product, in any version."""
        return self.file_kind.kind is FileType.OURS

    @property
    def is_of_another_program(self) -> bool:
        """Whether another program made its tables."""
        return self.file_kind.kind is FileType.OTHER

    @property
    def version(self) -> int:
        """The version that wrote it."""
        return self.file_kind.version

    @property
    def is_of_later_hermes(self) -> bool:
        """Whether a later hermes-agent made its tables."""
        return self.file_kind.kind is FileType.LATER

    def is_written_by_newer(self) -> bool:
        """Whether this version must not write it."""
        kind, version = self.file_kind
        is_ours = kind in (FileType.OURS, FileType.UNMARKED)
        return kind is FileType.LATER or (is_ours and version > KNOWN_LEVEL)

    def foreign_version(self) -> int | None:
        """Return ``schema_version`` if it is above that of this product, otherwise None."""
        with self.read() as tx:
            row = tx.one("SELECT MAX(version) FROM schema_version")
        stated = int(row[0] or 0) if row else 0
        return stated if stated > migrations.DOCUMENTED_VERSION else None

    # Damage

    def check_pages(self, *, until: float | None = None, thorough: bool = False) -> PageCheck:
        """Check the pages until the time limit; with *thorough* also compare indexes with their
        tables, without a time limit.

        Raises:
            ChangedDuringInspection: the file was changed meanwhile.
        """
        connection = self._connect()
        try:
            # Checks of virtual tables would ignore the time limit.
            connection.drop_modules(None)
            try:
                total = int(connection.pragma("page_count"))
                return self._checked(
                    connection, total, _WHOLE if thorough else until or self._until, thorough
                )
            except (apsw.CorruptError, apsw.NotADBError) as error:
                self.require_unchanged_during_inspection()
                return PageCheck(0, 0, (Damage(str(error)),))
        except apsw.Error as error:
            raise translate(error, self._real, connection) from error
        finally:
            connection.close(True)

    def _checked(
        self, connection: apsw.Connection, total: int, until: float, thorough: bool
    ) -> PageCheck:
        pragma = "integrity_check" if thorough else "quick_check"
        connection.set_progress_handler(lambda: self._stopwatch() >= until, _PAGES)
        found: list[str] = []
        is_complete = True
        try:
            # The first finding ends the check, so that the time limit does not discard it.
            found = _said(connection, f"PRAGMA {pragma}(1)")
            checked = total
            if found:
                found = _said(connection, f"PRAGMA {pragma}({_LISTED})") or found
                self._check_remaining_tables(connection, pragma, found)
        except apsw.InterruptError:
            # Each page is read once for it; the rows come afterwards, from the same pages.
            read, _ = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)
            checked, is_complete = min(read, total), False
        if found:
            self.require_unchanged_during_inspection()
        owners = _owners(connection) if found else {}
        return PageCheck(
            checked, total, tuple(_damage(words, owners) for words in found), is_complete
        )

    def _check_remaining_tables(
        self, connection: apsw.Connection, pragma: str, found: list[str]
    ) -> None:
        """Check the tables not mentioned yet: a check may have ended at repairable damage."""
        owners = _owners(connection)
        known = {damage.table for damage in (_damage(words, owners) for words in found)}
        tables = {table for _, _, table in owners.values()}
        for table in sorted(tables - known):
            quoted = table.replace('"', '""')
            found += _said(connection, f'PRAGMA {pragma}("{quoted}")')

    def require_unchanged_during_inspection(self) -> None:
        """Refuse a result about a file that was changed while it was read without locks.

        Raises:
            ChangedDuringInspection: it was changed.
        """
        if not self._identity.is_unchanged():
            raise ChangedDuringInspection(
                f"{self.path} was changed during the inspection. Try again."
            )

    # Connecting

    def _has_log(self) -> bool:
        """Whether the header says that the file has a write-ahead log.

        Read through SQLite's own layer, which never drops a lock that this process holds.
        """
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
        try:
            file = apsw.VFSFile("", self._real, [flags, 0])
        except apsw.Error as error:
            raise translate(error, self._real) from error
        try:
            size = file.xFileSize()
            if size == 0:
                return False
            beginning = file.xRead(min(size, _BEGINNING), 0)
        except apsw.Error as error:
            raise translate(error, self._real) from error
        finally:
            file.xClose()
        if beginning.startswith(_MAGIC) and len(beginning) > _JOURNAL_BYTE:
            return beginning[_JOURNAL_BYTE] == _WAL
        if any(word in beginning for word in _OURS):
            # Damage must not look like a missing store.
            raise StoreCorrupt(f"{self.path}: the beginning of the file is damaged.")
        raise NotADatabase(f"{self.path} is not a database.")

    def _connect(self) -> apsw.Connection:
        try:
            return self._opened(self._parameter)
        except apsw.CantOpenError:
            if self._parameter != "?readonly_shm=1":
                raise
            # The program that made the index has removed it.
            self._parameter = ""
            return self._opened("")

    def _opened(self, parameter: str) -> apsw.Connection:
        name = quote_from_bytes(os.fsencode(self._real))
        connection = apsw.Connection(
            f"file:{name}{parameter}",
            flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
        )
        try:
            connection.set_busy_timeout(0)
            connection.pragma("query_only", "ON")
            connection.set_progress_handler(lambda: self._stopwatch() >= self._until, _STEPS)
            connection.pragma("application_id")
        except BaseException:
            connection.close(True)
            raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.InterruptError as error:
            raise InspectionTimeout(_OVER) from error
        except apsw.CorruptError as error:
            self.require_unchanged_during_inspection()
            raise self._ours(error) from error
        except apsw.Error as error:
            raise self._ours(error) from error

    def _ours(self, error: apsw.Error) -> StoreError:
        code = getattr(error, "extendedresult", None)
        if code in (apsw.SQLITE_READONLY_ROLLBACK, apsw.SQLITE_READONLY_RECOVERY):
            return UnfinishedWrite(f"{self.path} contains an unfinished write.")
        return translate(error, self._real)


def _said(connection: apsw.Connection, pragma: str) -> list[str]:
    """Return the findings of a check, line by line."""
    texts: list[str] = []
    try:
        for (text,) in connection.execute(pragma):
            texts.append(str(text))
    except apsw.CorruptError as error:
        # It reports its findings first, and may then fail at the same damage.
        texts = texts or [str(error)]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    return [line for line in lines if line != "ok" and not line.startswith("*** in database")]


def _owners(connection: apsw.Connection) -> dict[str, tuple[str, str, str]]:
    """Return type, name and table of every B-tree, by its root page and by its name."""
    found: dict[str, tuple[str, str, str]] = {}
    try:
        for kind, name, table, page in connection.execute(
            "SELECT type, name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0"
        ):
            found[str(page)] = found[name] = (kind, name, table)
    except apsw.Error:
        return {}
    return found


def _damage(words: str, owners: dict[str, tuple[str, str, str]]) -> Damage:
    match = _TREE.search(words) or _IN_INDEX.search(words)
    owner = owners.get(match[1]) if match else None
    if owner is None:
        return Damage(words)
    kind, name, table = owner
    return Damage(words, name, kind == "index", table)
