"""The copy made beside a file before its layout changes.

It is written under a temporary name, compared byte by byte with the original, checked as a
database, and only then renamed: a copy with the final name is complete. An existing copy is reused
if it has exactly the same content, and otherwise left alone.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw

from hermes_sessions.errors import (
    DiskFull,
    StoreCorrupt,
    StoreIOError,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnreachable,
)
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.file_access import create_private

logger = Logger(__name__)

#: How many different copies of one version are kept.
_KEPT: Final = 3
_PAGES_AT_ONCE: Final = 4096
_CHUNK: Final = 1024 * 1024
_SPARE_BYTES: Final = 1024 * 1024

#: Header bytes in which a copy may differ: kind of journal, change counters and library version.
_OWN_HEADER_BYTES: Final = ((18, 20), (24, 28), (40, 44), (92, 100))
#: The header position of the first free-list page.
_FREE_LIST: Final = 32
#: SQLite never uses the page with its lock bytes.
_LOCK_BYTES: Final = 0x4000_0000


def ensure_backup(connection: apsw.Connection, path: Path, version: int) -> Path:
    """Return a verified copy of the file beside it, creating it if needed.

    *connection* must hold the file exclusively, outside any transaction.

    Raises:
        DiskFull: there is not enough space.
        StoreReadOnly: the directory cannot be written.
        StoreCorrupt: the file itself is damaged.
        StoreUnavailable: the maximum number of different copies exists already.
        StoreIOError: the copy differs from the file.
    """
    length = _length(connection)
    if path.stat().st_size < length:
        raise StoreCorrupt(
            f"{path}: database disk image is malformed: its end is missing. Nothing was changed. "
            f"Keep the file, and restore a backup or recover what can be read with: hermes repair"
        )
    for target in _names(path, version):
        if not os.path.lexists(target):
            _make(connection, path, target, length)
            logger.info("%s: backed up to %s", path, target)
            return target
        if _same_state(connection, path, target, length):
            logger.info("%s: the backup %s already has this state", path, target)
            return target
    names = ", ".join(name.name for name in _names(path, version))
    raise StoreUnavailable(
        f"{path} was not upgraded: {_KEPT} backups of other states of it exist already "
        f"({names}), and none is ever overwritten. Move those you want to keep to another "
        f"directory, then try again."
    )


def _names(path: Path, version: int) -> Iterator[Path]:
    yield path.with_name(f"{path.name}.v{version}.bak")
    for number in range(2, _KEPT + 1):
        yield path.with_name(f"{path.name}.v{version}.{number}.bak")


def _length(connection: apsw.Connection) -> int:
    return int(connection.pragma("page_count")) * int(connection.pragma("page_size"))


def _make(connection: apsw.Connection, path: Path, target: Path, length: int) -> None:
    _require_space(path, length)
    # All attempts use one name, so that a killed attempt is cleaned up by the next.
    partial = path.with_name(f"{path.name}.bak.partial")
    try:
        partial.unlink(missing_ok=True)
        create_private(partial)
    except (OSError, StoreUnreachable) as error:
        raise StoreReadOnly(
            f"{path} was not upgraded, because no backup can be written beside it: {error} Make "
            f"the directory writable for yourself, or move the file to one that is."
        ) from error
    try:
        _copy(connection, partial)
        if not _same_state(connection, path, partial, length):
            raise StoreIOError(
                f"{partial} does not contain what was written to it; {path} was not changed. Check "
                f"the disk."
            )
        _check(partial, path)
        _sync(partial)
        partial.rename(target)
        _sync(target.parent)
    except (apsw.FullError, apsw.IOError, OSError) as error:
        if isinstance(error, apsw.FullError) or _free_bytes(path) < _SPARE_BYTES:
            raise _no_room(path, length) from error
        if isinstance(error, OSError):
            raise StoreIOError(
                f"{path} was not changed, because its backup {target} failed: {error}. Check the "
                f"disk."
            ) from error
        raise
    finally:
        partial.unlink(missing_ok=True)


def _require_space(path: Path, length: int) -> None:
    # The copy, plus a rollback journal of about half of the pages during the upgrade.
    if _free_bytes(path) < length + length // 2 + _SPARE_BYTES:
        raise _no_room(path, length)


def _free_bytes(path: Path) -> int:
    return shutil.disk_usage(path.parent).free


def _no_room(path: Path, length: int) -> DiskFull:
    needed = length + length // 2 + _SPARE_BYTES
    return DiskFull(
        f"{path} was not changed: upgrading it needs about {_megabytes(needed)} MB beside it for a "
        f"backup and a journal, and {_megabytes(_free_bytes(path))} MB are free. Free some space "
        f"and try again."
    )


def _megabytes(count: int) -> str:
    return f"{count / 1_000_000:,.1f}"


def _copy(connection: apsw.Connection, partial: Path) -> None:
    copy = apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        # Durability is not needed until the copy has its final name.
        copy.pragma("journal_mode", "off")
        with copy.backup("main", connection, "main") as backup:
            while not backup.done:
                backup.step(_PAGES_AT_ONCE)
    finally:
        copy.close()


def _check(partial: Path, path: Path) -> None:
    """Check every table except those of the search index, which is derived and dropped."""
    copy = apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        tables: list[tuple[Any, ...]] = copy.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' "
            "AND type NOT IN ('virtual', 'shadow', 'view')"
        ).fetchall()
        for (table,) in tables:
            quoted = '"' + table.replace('"', '""') + '"'
            findings = copy.execute(f"PRAGMA quick_check({quoted})").fetchall()
            if findings != [("ok",)]:
                raise StoreCorrupt(
                    f"{path}: database disk image is malformed in table {table} "
                    f"({findings[0][0]}). Nothing was changed. Keep the file, and restore a backup "
                    f"or recover what can be read with: hermes repair"
                )
    finally:
        copy.close()


def _same_state(connection: apsw.Connection, path: Path, copy: Path, length: int) -> bool:
    if copy.is_symlink() or not copy.is_file() or copy.stat().st_size != length:
        return False
    page_size = int(connection.pragma("page_size"))
    with _Reader(path) as ours, _Reader(copy) as theirs:
        unused = _unused_pages(ours, page_size, length)
        for offset in range(0, length, _CHUNK):
            here, there = ours.read(offset, length), theirs.read(offset, length)
            if here != there and (
                _without_pages(here, offset, page_size, unused)
                != _without_pages(there, offset, page_size, unused)
            ):
                return False
    return True


def _unused_pages(file: _Reader, page_size: int, length: int) -> set[int]:
    """Return the offsets of pages whose bytes are meaningless.

    A rollback does not restore them, so they differ after a killed upgrade.
    """
    unused = {_LOCK_BYTES}
    trunks: set[int] = set()
    (trunk,) = struct.unpack(">I", file.read(_FREE_LIST, _FREE_LIST + 4))
    while trunk and trunk not in trunks and trunk * page_size <= length:
        trunks.add(trunk)
        page = file.read((trunk - 1) * page_size, trunk * page_size)
        trunk, count = struct.unpack_from(">II", page)
        leaves = struct.unpack_from(f">{min(count, page_size // 4 - 2)}I", page, 8)
        unused.update((leaf - 1) * page_size for leaf in leaves)
    return unused


def _without_pages(chunk: bytes, offset: int, page_size: int, unused: set[int]) -> bytes:
    """Return the meaningful part of a chunk."""
    blanked = bytearray(chunk)
    if offset == 0:
        for start, end in _OWN_HEADER_BYTES:
            blanked[start:end] = bytes(end - start)
    for page in range(0, len(chunk), page_size):
        if offset + page in unused:
            blanked[page : page + page_size] = bytes(page_size)
    return bytes(blanked)


class _Reader:
    """Reads a file through SQLite's own layer, which never drops a lock that this process holds."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _Reader:
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
        self._file = apsw.VFSFile("", str(self._path), [flags, 0])
        return self

    def __exit__(self, *_exc: object) -> None:
        self._file.xClose()

    def read(self, offset: int, end: int) -> bytes:
        """Return the bytes from *offset* to *end*, at most one chunk."""
        return self._file.xRead(min(_CHUNK, end - offset), offset)


def _sync(path: Path) -> None:
    # Never called with the store itself: closing a descriptor of it would drop our locks.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
