"""How much of a write-ahead log SQLite accepts, determined by SQLite itself.

SQLite reads a log to its end when it opens the file, and computes checksums far faster than Python.
So it gets a virtual file of one page, and the log beside it, through a read-only VFS: no name is
looked up, nothing is locked, and nothing can be written or removed.
"""

# ruff: noqa: N802 - method names are SQLite's.

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import BinaryIO, Final, Literal, cast

import apsw

# Checksums of a write-ahead log, many frames at a time.
#
# A frame's checksum continues that of the previous frame, which is stored, so many frames can be
# computed in parallel. Each has its slot in one long integer, 64 bits wide for 32-bit sums, and one
# addition adds the next word of all of them. This takes a fifteenth of the time of a word-by-word
# loop, and works wherever Python does.

#: The byte order of words, as in `struct`.
Order = Literal["<", ">"]
#: The two halves of a checksum.
Sums = tuple[int, int]

#: The bytes before the page in a frame: page number, database size, salts, checksum.
FRAME_HEADER: Final = 24
_PAIR: Final = 8
_FIRST_OF_PAGE: Final = FRAME_HEADER // _PAIR
_WORD: Final = 0xFFFFFFFF
#: How often two words may be added before a sum overflows 64 bits, with some margin (22).
_ROUND: Final = 16


def plain_sums(order: Order, data: bytes, seed: Sums) -> Sums:
    """Return the checksum of *data* that continues *seed*, word by word."""
    first, second = seed
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & _WORD
        second = (second + words[index + 1] + first) & _WORD
    return first, second


def frame_sums(
    order: Order,
    block: bytes,
    seeds: Sequence[Sums],
    abort_check: Callable[[], None] = lambda: None,
) -> list[Sums]:
    """Return the checksum of each frame in *block*, one per seed; each continues its seed.

    Checksums stored in the frames are ignored. *abort_check* is called now and then, and raises to
    abort.
    """
    count = len(seeds)
    pairs = array("Q", block)
    step = len(pairs) // count
    whole: Literal["little", "big"] = "little" if order == "<" else "big"

    def side_by_side(values: Sequence[int]) -> int:
        return int.from_bytes(struct.pack(f"{order}{count}Q", *values), whole)

    def apart(sums: int) -> tuple[int, ...]:
        return struct.unpack(f"{order}{count}Q", sums.to_bytes(count * _PAIR, whole))

    halves = side_by_side([_WORD] * count)
    first = side_by_side([seed[0] for seed in seeds])
    second = side_by_side([seed[1] for seed in seeds])
    summed = (0, *range(_FIRST_OF_PAGE, step))
    is_low_first = order == "<"
    for start in range(0, len(summed), _ROUND):
        abort_check()
        for at in summed[start : start + _ROUND]:
            pair = int.from_bytes(pairs[at::step], whole)
            low, high = pair & halves, pair >> 32 & halves
            first += second + (low if is_low_first else high)
            second += first + (high if is_low_first else low)
        first &= halves
        second &= halves
    return list(zip(apart(first), apart(second), strict=True))


_NUMBERS: Final = count(1)
_NAME: Final = "/store"


def count_valid_frames(log: BinaryIO, page_size: int, abort_check: Callable[[], None]) -> int:
    """Return the number of the last frame that SQLite would use; all up to it are intact.

    0 if there is none, or SQLite refuses the log. *abort_check* is called before every frame, and
    raises to abort.
    """
    files = _LogVFS(log, page_size, abort_check)
    try:
        with suppress(apsw.Error):
            return files.ask()
    finally:
        files.unregister()
    if files.ended_by is not None:
        raise files.ended_by
    return 0


class _LogVFS(apsw.VFS):
    """A VFS with two files: the virtual database and the log."""

    def __init__(self, log: BinaryIO, page_size: int, abort_check: Callable[[], None]) -> None:
        # Names are unique, because several threads may use this at once.
        self._name = f"hermes-sessions-log-{next(_NUMBERS)}"
        super().__init__(self._name, "")
        self._log = log
        self._page = _first_page(page_size)
        self._go_on = abort_check
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
        except BaseException as error:  # noqa: BLE001 - re-raised outside SQLite
            self.ended_by = error
            raise apsw.IOError from None

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        del name
        flags[1] = flags[0]
        if flags[0] & apsw.SQLITE_OPEN_WAL:
            return cast("apsw.VFSFile", _LogFile(self, self._log))
        return cast("apsw.VFSFile", _VirtualFile(self._page))

    def xAccess(self, pathname: str, flags: int) -> bool:
        del flags
        return pathname == f"{_NAME}-wal"

    def xFullPathname(self, name: str) -> str:
        return name

    def xDelete(self, filename: str, syncdir: bool) -> None:
        del filename, syncdir
        raise apsw.ReadOnlyError


class _VirtualFile:
    """A virtual read-only file."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def xRead(self, amount: int, offset: int) -> bytes:
        return self._content[offset : offset + amount]

    def xFileSize(self) -> int:
        return len(self._content)

    def xLock(self, level: int) -> None:
        """Do nothing: no other program can see it."""

    def xUnlock(self, level: int) -> None:
        """Do nothing: no other program can see it."""

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
        """Do nothing: it is read-only."""

    def xClose(self) -> None:
        """Do nothing: no descriptor is open."""


class _LogFile(_VirtualFile):
    """The log, read in place."""

    def __init__(self, files: _LogVFS, log: BinaryIO) -> None:
        super().__init__(b"")
        self._files = files
        self._log = log

    def xRead(self, amount: int, offset: int) -> bytes:
        return self._files.read_log(amount, offset)

    def xFileSize(self) -> int:
        return os.fstat(self._log.fileno()).st_size


def _first_page(page_size: int) -> bytes:
    """Return the first page of an empty database in WAL mode."""
    stated = 1 if page_size == 65536 else page_size
    head = struct.pack(">16sH6B", b"SQLite format 3\0", stated, 2, 2, 0, 64, 32, 32)
    settings = head.ljust(44, b"\0") + struct.pack(">4I", 4, 0, 0, 1)
    root = struct.pack(">B3HB", 13, 0, 0, page_size & 0xFFFF, 0)
    return (settings.ljust(100, b"\0") + root).ljust(page_size, b"\0")
