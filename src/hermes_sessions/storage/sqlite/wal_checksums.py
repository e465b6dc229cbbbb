"""How much of a write-ahead log SQLite takes, asked of SQLite itself.

It reads a log to its end when it opens the file, and counts its checksums far faster than
Python can. So it gets a file that consists of one made-up page, and the log beside it, from which
it can only read: no name is looked up, nothing is locked, and nothing can be written or removed.
"""

# ruff: noqa: N802 - methods are called what SQLite calls them.

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import BinaryIO, Final, cast

import apsw

_NUMBERS: Final = count(1)
_NAME: Final = "/store"


def accepted_frames(log: BinaryIO, page_size: int, go_on: Callable[[], None]) -> int:
    """Return the number of the last frame that SQLite would use; all up to it are as they were
    written. 0 when there is none, or SQLite refuses the log.

    *go_on* is called before every frame, and raises what ends it.
    """
    files = _Files(log, page_size, go_on)
    try:
        with suppress(apsw.Error):
            return files.ask()
    finally:
        files.unregister()
    if files.ended_by is not None:
        raise files.ended_by
    return 0


class _Files(apsw.VFS):
    """All the files there are: the made-up one, and the log."""

    def __init__(self, log: BinaryIO, page_size: int, go_on: Callable[[], None]) -> None:
        # Several threads may ask at once.
        self._name = f"hermes-sessions-log-{next(_NUMBERS)}"
        super().__init__(self._name, "")
        self._log = log
        self._page = _first_page(page_size)
        self._go_on = go_on
        self.ended_by: BaseException | None = None

    def ask(self) -> int:
        connection = apsw.Connection(_NAME, flags=apsw.SQLITE_OPEN_READONLY, vfs=self._name)
        try:
            # The index of the log stays in memory.
            connection.pragma("locking_mode", "EXCLUSIVE")
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.pragma("schema_version")
            frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            return max(frames, 0)
        finally:
            connection.close(True)

    def read_log(self, amount: int, offset: int) -> bytes:
        try:
            self._go_on()
            self._log.seek(offset)
            return self._log.read(amount)
        except BaseException as error:  # noqa: BLE001 - it goes on beyond SQLite
            self.ended_by = error
            raise apsw.IOError from None

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        del name
        flags[1] = flags[0]
        if flags[0] & apsw.SQLITE_OPEN_WAL:
            return cast("apsw.VFSFile", _Log(self, self._log))
        return cast("apsw.VFSFile", _Made(self._page))

    def xAccess(self, pathname: str, flags: int) -> bool:
        del flags
        return pathname == f"{_NAME}-wal"

    def xFullPathname(self, name: str) -> str:
        return name

    def xDelete(self, filename: str, syncdir: bool) -> None:
        del filename, syncdir
        raise apsw.ReadOnlyError


class _Made:
    """A file that can only be read."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def xRead(self, amount: int, offset: int) -> bytes:
        return self._content[offset : offset + amount]

    def xFileSize(self) -> int:
        return len(self._content)

    def xLock(self, level: int) -> None:
        """Nobody else can see it."""

    def xUnlock(self, level: int) -> None:
        """Nobody else can see it."""

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:
        del op, pointer
        return False

    def xSectorSize(self) -> int:
        return 0

    def xDeviceCharacteristics(self) -> int:
        return 0

    def xWrite(self, data: bytes, offset: int) -> None:
        del data, offset
        raise apsw.ReadOnlyError

    def xTruncate(self, size: int) -> None:
        del size
        raise apsw.ReadOnlyError

    def xSync(self, flags: int) -> None:
        """Nothing was written."""

    def xClose(self) -> None:
        """Nothing was opened."""


class _Log(_Made):
    """The log, read where it is."""

    def __init__(self, files: _Files, log: BinaryIO) -> None:
        super().__init__(b"")
        self._files = files
        self._log = log

    def xRead(self, amount: int, offset: int) -> bytes:
        return self._files.read_log(amount, offset)

    def xFileSize(self) -> int:
        return os.fstat(self._log.fileno()).st_size


def _first_page(page_size: int) -> bytes:
    """Return the page of an empty database that has a log."""
    stated = 1 if page_size == 65536 else page_size
    head = struct.pack(">16sH6B", b"SQLite format 3\0", stated, 2, 2, 0, 64, 32, 32)
    settings = head.ljust(44, b"\0") + struct.pack(">4I", 4, 0, 0, 1)
    root = struct.pack(">B3HB", 13, 0, 0, page_size & 0xFFFF, 0)
    return (settings.ljust(100, b"\0") + root).ljust(page_size, b"\0")
