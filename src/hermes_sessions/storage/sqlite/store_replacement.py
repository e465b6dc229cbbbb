"""Replace a store by another one and keep the old one.

No program may use the store meanwhile, and at every moment there is a complete store at its path:
the old or the new one. A file must not be renamed over a database: its log lies beside it under its
name, and a program waiting for the old file would use the new one's log. So, with exclusive access:

1. The log is copied back and removed, and the file is copied to the name where it is kept.
2. The pages of the new store overwrite those of the old one in one SQLite transaction, with a
   rollback journal: after a crash, the next program to open it gets the old store.

A file that SQLite cannot open at all is not in use as a database. It is kept as it is, together
with its log, and the new file is renamed over it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import apsw

from hermes_sessions.errors import SchemaRefused, StoreLocked
from hermes_sessions.storage.fsync import sync_directory, sync_file
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.connection import Deadline, SQLiteOptions
from hermes_sessions.storage.sqlite.error_translation import translate
from hermes_sessions.storage.sqlite.exclusive_access import (
    exclusive_access,
    processes_with_write_access,
)
from hermes_sessions.storage.sqlite.file_access import (
    COMPANIONS,
    check_ownership,
    create_private,
    lock_holders,
)
from hermes_sessions.storage.sqlite.file_kind import FileType, identify_file
from hermes_sessions.storage.sqlite.shared_engines import shared_engines
from hermes_sessions.storage.sqlite.store_image import copy_pages, opened_image
from hermes_sessions.storage.sqlite.wal_files import inspect_wal

logger = Logger(__name__)

_CHUNK: Final = 1024 * 1024
_MAGIC: Final = b"SQLite format 3\0"
_LOGS: Final = ("-wal", "-journal")


def replace_store(path: Path, new: Path, kept: Path, patience: float) -> Path | None:
    """Replace the store at *path* by *new*; return where the old one is kept, None for a missing or
    empty file.

    *path* must be resolved. *new* is complete, durable, without companion files and in the same
    directory; it may be gone afterwards. *kept* is an unused name there.

    Raises:
        StoreLocked: the store is in use; the message says by which program. Nothing was changed.
        SchemaRefused: it is another program's database.
        UnsafeStore: it belongs to another user.
        StoreError, OSError: the old store is still in place.
    """
    check_ownership(str(path))
    # Prevents another process from creating a store there meanwhile.
    create_private(path)
    require_unused(path)
    deadline = Deadline()
    deadline.start(patience)
    options = SQLiteOptions(lock_timeout=patience)
    try:
        _require_database(path)
        with exclusive_access(
            path, options, deadline, gated=True, still_needed=lambda _: True
        ) as alone:
            if alone is None:
                raise AssertionError("it is always needed")
            return _replace(alone, path, new, kept)
    except (StoreLocked, apsw.BusyError) as error:
        raise _in_use(path, _users(path)) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        logger.warning("%s is damaged (%s); it is kept as it is, with its log", path, error)
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    with _locked(path, deadline) as old:
        _keep_raw(old, path, kept)
        for suffix in COMPANIONS:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        new.replace(path)
        sync_directory(path.parent)
    return kept


def _require_database(path: Path) -> None:
    """Raise the driver's error for a file that is not a database, or whose log is damaged: SQLite
    would drop a part of it just by opening it.
    """
    # (This process does not have it open, so no lock can be lost.)
    with path.open("rb") as file:
        head = file.read(len(_MAGIC))
    if head and head != _MAGIC:
        raise apsw.NotADBError("file is not a database")
    log = path.with_name(f"{path.name}-wal")
    if not log.exists():
        return
    state = inspect_wal(log)
    if state.drops_commits or (state.frames and not head):
        raise apsw.CorruptError("the file and its write-ahead log do not match")


def _replace(alone: apsw.Connection, path: Path, new: Path, kept: Path) -> Path | None:
    kind = identify_file(alone).kind
    if kind is FileType.OTHER:
        raise SchemaRefused(
            f"{path} is a database of another program; it was not changed. Choose another path."
        )
    if kind is not FileType.EMPTY:
        partial = _unfinished(kept)
        create_private(partial)
        with closing(apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READWRITE)) as copy:
            copy.pragma("journal_mode", "off")
            copy_pages(alone, copy)
        sync_file(partial)
        partial.rename(kept)
        sync_directory(kept.parent)
    with opened_image(new) as image:
        copy_pages(image, alone)
    return None if kind is FileType.EMPTY else kept


def _unfinished(kept: Path) -> Path:
    partial = kept.with_name(f"{kept.name}.unfinished")
    partial.unlink(missing_ok=True)
    return partial


def require_unused(path: Path) -> None:
    """Refuse a store that a program has open, as far as that is visible without touching it.

    Raises:
        StoreLocked: the message names the program.
    """
    if shared_engines.is_open(str(path)):
        raise _in_use(path, ["this process"])
    holders = _users(path)
    if holders:
        raise _in_use(path, holders)


def _users(path: Path) -> list[str]:
    return processes_with_write_access(path) or lock_holders(path)


@contextmanager
def _locked(path: Path, deadline: Deadline) -> Iterator[apsw.VFSFile]:
    """Lend the file, locked against every connection of every process."""
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
    # Through SQLite's own layer: closing another descriptor would drop locks of this process.
    file = apsw.VFSFile("", str(path), [flags, 0])
    try:
        attempt = 0
        while True:
            try:
                file.xLock(apsw.SQLITE_LOCK_SHARED)
                file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
            except apsw.BusyError as error:
                file.xUnlock(apsw.SQLITE_LOCK_NONE)
                if not deadline.wait_for_lock(attempt):
                    raise _in_use(path, _users(path)) from error
                attempt += 1
            else:
                break
        require_unused(path)
        yield file
    finally:
        with suppress(apsw.Error):
            file.xUnlock(apsw.SQLITE_LOCK_NONE)
        file.xClose()


def _keep_raw(old: apsw.VFSFile, path: Path, kept: Path) -> None:
    """Copy a file that is not a database, with its logs, as they are."""
    partial = _unfinished(kept)
    size = old.xFileSize()
    with _private(partial) as copy:
        for offset in range(0, size, _CHUNK):
            copy.write(old.xRead(min(_CHUNK, size - offset), offset))
    for suffix in _LOGS:
        log = path.with_name(path.name + suffix)
        if log.exists():
            # (Not the database: closing this drops no lock.)
            with log.open("rb") as file, _private(kept.with_name(kept.name + suffix)) as copy:
                while chunk := file.read(_CHUNK):
                    copy.write(chunk)
    partial.rename(kept)
    sync_directory(kept.parent)


@contextmanager
def _private(path: Path) -> Iterator[BinaryIO]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _in_use(path: Path, holders: list[str]) -> StoreLocked:
    return StoreLocked(
        f"{path} is in use by {', '.join(holders) or 'another program'}; nothing was changed. "
        f"Stop that program first, then try again."
    )
