"""Open a foreign database for reading only: it is never changed and read as of now.

SQLite writes beside a file in write-ahead mode even when it only reads. So a file that no program
uses is opened as immutable and compared afterwards. If it cannot be read in place (a log or journal
must be applied first, in a directory that we cannot write), a temporary copy is read.

Nothing here reads a database by plain file calls while this process may have it open: closing such
a descriptor would drop the locks of this process.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from hermes_sessions.config.paths import IMPORTED_STORE_FILE_NAME
from hermes_sessions.errors import ImportRefused
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.error_translation import translated
from hermes_sessions.storage.sqlite.file_kind import FileType, identify_file

logger = Logger(__name__)

_MAGIC: Final = b"SQLite format 3\x00"
_WRITE_AHEAD: Final = 2
_COMPANIONS: Final = ("-wal", "-journal")
_PATIENCE_MS: Final = 16_000


def is_database(path: Path) -> bool:
    """Return whether a file is a SQLite database; False if it cannot be read."""
    return _header(path.resolve()).startswith(_MAGIC)


def has_wal_header(path: Path) -> bool:
    """Return whether the header says that the newest writes are in a write-ahead log."""
    return _WRITE_AHEAD in _header(path.resolve())[18:20]


def target_for(source: Path, configured_path: Path) -> Path:
    """Return the store that *source* is imported into.

    It is the configured one, unless *source* itself has that path and is not a store of ours: a
    later Hermes' file is never touched, so the target is ``hermes-sessions.db`` beside it.

    Raises:
        ImportRefused: *source* is the configured store.
    """
    if os.path.realpath(source) != os.path.realpath(configured_path):
        return configured_path
    with reading(source) as connection:
        if identify_file(connection).kind in (FileType.OURS, FileType.UNMARKED):
            raise ImportRefused(
                f"{source} is the configured store itself; there is nothing to import."
            )
    return configured_path.with_name(IMPORTED_STORE_FILE_NAME)


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """Lend a connection inside one read transaction; the file is not changed.

    Raises:
        ImportRefused: not a database, or changed while it was read as an idle file.
        StoreError: it cannot be read.
    """
    if not is_database(path):
        raise ImportRefused(
            f"{path} is not a database, or cannot be read. Check the path and its permissions."
        )
    # Log and journal are beside the file itself, not beside a link to it.
    path = path.resolve()
    with translated(str(path)):
        connection, at_rest, copy = _open(path)
        try:
            yield connection
        finally:
            connection.close(True)
            if copy is not None:
                shutil.rmtree(copy, ignore_errors=True)
    if at_rest is not None and at_rest != _state(path):
        raise ImportRefused(
            f"{path} was changed by another program during the import. The imported data is "
            f"consistent; import again to get the rest."
        )


State = tuple[tuple[int, int] | None, ...]


def _open(path: Path) -> tuple[apsw.Connection, State | None, Path | None]:
    """Return a connection, the file's state if it was idle, and the directory of a copy."""
    log, index = _size(path, "-wal"), _size(path, "-shm")
    header = _header(path)
    if _WRITE_AHEAD in header[18:20] and log is None and index is None:
        state = _state(path)
        return _begin(path, immutable=True), state, None
    try:
        return _begin(path), None, None
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
        if _WRITE_AHEAD in header[18:20] and not log:
            state = _state(path)
            return _begin(path, immutable=True), state, None
        logger.info("%s cannot be read in place (%s); reading a copy", path, error)
        copy = _copy(path)
        try:
            return _begin(copy / path.name, writable=True), None, copy
        except BaseException:
            shutil.rmtree(copy, ignore_errors=True)
            raise


def _begin(path: Path, *, immutable: bool = False, writable: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE if writable else apsw.SQLITE_OPEN_READONLY
    mode = "?immutable=1" if immutable else ""
    connection = apsw.Connection(
        f"file:{quote(str(path))}{mode}", flags=flags | apsw.SQLITE_OPEN_URI
    )
    try:
        connection.set_busy_timeout(_PATIENCE_MS)
        # The schema of a foreign file must not run any code.
        connection.pragma("trusted_schema", 0)
        if not writable:
            connection.pragma("query_only", 1)
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except BaseException:
        connection.close(True)
        raise
    return connection


def _copy(path: Path) -> Path:
    """Return a private directory with a copy of a file that no process can be using."""
    folder = Path(tempfile.mkdtemp(prefix="hermes-import-"))
    try:
        for suffix in ("", *_COMPANIONS):
            part = Path(f"{path}{suffix}")
            if part.exists():
                shutil.copyfile(part, folder / part.name)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _header(path: Path) -> bytes:
    if not path.is_file():
        return b""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB
    try:
        file = apsw.VFSFile("", str(path), [flags, 0])
    except apsw.Error:
        return b""
    try:
        return file.xRead(100, 0)
    except apsw.Error:
        return b""
    finally:
        file.xClose()


def _size(path: Path, suffix: str) -> int | None:
    try:
        return Path(f"{path}{suffix}").stat().st_size
    except OSError:
        return None


def _state(path: Path) -> State:
    """Return values that change when a program writes, or begins to."""
    facts: list[tuple[int, int] | None] = []
    for suffix in ("", *_COMPANIONS):
        try:
            found = Path(f"{path}{suffix}").stat()
        except OSError:
            facts.append(None)
        else:
            # A program that only reads leaves an empty log.
            facts.append((found.st_size, found.st_mtime_ns) if found.st_size else None)
    return tuple(facts)
