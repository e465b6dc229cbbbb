"""Write-ahead logs: inspect them frame by frame, set orphaned ones aside, apply them to a copy.

SQLite stops at the first damaged frame without reporting that there was more. Every frame's
checksum continues that of the previous frame, which is stored. So each frame can be verified by
itself, and a damaged one does not invalidate the others.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import apsw

from hermes_sessions.errors import StoreCorrupt, StoreLocked
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.connection import wal_size
from hermes_sessions.storage.sqlite.wal_checksums import (
    FRAME_HEADER,
    Order,
    Sums,
    count_valid_frames,
    frame_sums,
    plain_sums,
)

# An orphaned log: the store that it belongs to was removed or moved without it.
#
# When a new store is created there, SQLite would delete the log and with it the newest writes that
# were not copied back. So it gets another name.


logger = Logger(__name__)


_FLAGS: Final = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE


def set_aside_orphaned_wal(real: str) -> str | None:
    """Rename the log beside *real*, a file that this process has just created; return its new name.

    None if there is no log, or another process was first.
    """
    file = apsw.VFSFile("", real, [_FLAGS, 0])
    try:
        try:
            # Processes that open the new file meanwhile wait: a log that exists afterwards is its
            # own.
            file.xLock(apsw.SQLITE_LOCK_SHARED)
            file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
        except apsw.BusyError:
            return None
        return _set_aside(real)
    finally:
        with suppress(apsw.Error):
            file.xUnlock(apsw.SQLITE_LOCK_NONE)
        file.xClose()


def _set_aside(real: str) -> str | None:
    log = f"{real}-wal"
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    kept = f"{real}.left-{stamp}-wal"
    number = 1
    while os.path.lexists(kept):
        number += 1
        kept = f"{real}.left-{stamp}-{number}-wal"
    try:
        os.rename(log, kept)
    except FileNotFoundError:
        return None
    # Only the index of the log; readers of the old store have it in memory.
    with suppress(FileNotFoundError):
        os.unlink(f"{real}-shm")
    logger.warning(
        "%s is new; the write-ahead log of a store that was removed or moved is kept as %s. "
        "It belongs to that store: put it beside that file as NAME-wal before you open it.",
        real,
        kept,
    )
    return kept


# Checking that SQLite would read everything in a write-ahead log.
#
# SQLite silently stops at the first damaged page of the log, and deletes the log of an empty file
# when it merely opens it.


def require_intact_wal(
    path: Path, repair: str = "hermes repair", abort_check: Callable[[], None] = lambda: None
) -> None:
    """Refuse a file with a log from which SQLite would drop a part; *repair* is the command that
    recovers it. Nothing is changed. *abort_check* raises to abort the check, page by page.

    Raises:
        StoreCorrupt: the log is damaged.
    """
    real = os.path.realpath(path)
    if wal_size(real) == 0:
        return
    if os.stat(real).st_size == 0:
        raise unusable_wal(path, repair, is_emptied=True)
    # Only needed after a crash; not loaded otherwise.
    from hermes_sessions.storage.sqlite.store_replacement import require_unused

    try:
        require_unused(Path(real))
    except StoreLocked:
        return  # The first process to open it has checked it, and may be writing it.
    if inspect_wal(Path(f"{real}-wal"), abort_check).drops_commits:
        raise unusable_wal(path, repair)


def unusable_wal(
    path: Path, repair: str = "hermes repair", *, is_emptied: bool = False
) -> StoreCorrupt:
    """Return the error for a store whose log is damaged, or whose file *is_emptied*."""
    what = (
        "it is empty, but its write-ahead log is not"
        if is_emptied
        else "its write-ahead log is damaged, and some writes would be missing"
    )
    return StoreCorrupt(f"{path}: {what}; nothing was changed. To recover the writes: {repair}")


_HEADER: Final = 32
_MAGIC: Final[dict[int, Order]] = {0x377F0682: "<", 0x377F0683: ">"}
_SMALLEST_PAGE: Final = 512
_LARGEST_PAGE: Final = 65536
#: How much is read at once: the fastest number of frames, within this many bytes.
_FRAMES_AT_ONCE: Final = 512
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
#: How often a log is read that others restart meanwhile.
_MOST_LOOKS: Final = 10


class WalState(NamedTuple):
    """The content of a log."""

    page_size: int = 0
    #: Frames of the current generation; older ones after them are meaningless.
    frames: int = 0
    #: Damaged frames, counted from 1. Frames after the last commit are not always checked.
    damaged: tuple[int, ...] = ()
    is_header_damaged: bool = False
    #: Number of frames of committed transactions.
    committed: int = 0
    #: The last frame of the transaction before the last commit; 0 also if everything up to that
    #: is intact.
    committed_before: int = 0

    @property
    def drops_commits(self) -> bool:
        """Whether SQLite would drop durable commits.

        A crash of the machine may leave a part of the very last transaction, which was not
        acknowledged.
        """
        if self.is_header_damaged:
            return self.frames > 0
        return any(number <= self.committed_before for number in self.damaged)

    @property
    def is_damaged(self) -> bool:
        """Whether committed data is damaged."""
        if self.is_header_damaged:
            return self.frames > 0
        return any(number <= self.committed for number in self.damaged)


class _Frame(NamedTuple):
    number: int
    page: int
    #: The size of the database in pages, if this frame ends a transaction.
    size_after: int
    #: Whether its checksum is correct.
    is_sound: bool
    #: Whether its salts are those of the current generation; SQLite stops at a frame with others.
    is_marked: bool


class _LogFormat(NamedTuple):
    """The parameters needed to read frames."""

    page_size: int
    order: Order
    #: The salts of the current generation.
    salts: tuple[int, int]
    #: The seed of the first frame's checksum; None if the header is damaged.
    seed: Sums | None

    @property
    def step(self) -> int:
        return FRAME_HEADER + self.page_size

    def offset(self, number: int) -> int:
        """Return the offset of a frame."""
        return _HEADER + (number - 1) * self.step


def inspect_wal(path: Path, abort_check: Callable[[], None] = lambda: None) -> WalState:
    """Return the content of the log at *path*, which may be written meanwhile; empty without a log.

    *abort_check* is called now and then, and raises to abort.
    """
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        return WalState()
    with file:
        for _ in range(_MOST_LOOKS):
            header = _read_at(file, 0, _HEADER)
            state = _inspected(file, abort_check)
            if _read_at(file, 0, _HEADER) == header:
                return state
    # Other processes restart it continuously: they have read it, and found it intact.
    return WalState()
    # It restarted, and the result mixes two generations.


def apply_wal(log: Path, database: Path) -> WalState:
    """Copy the intact commits from a log into its database, and return what was found.

    Both are private copies that no other program uses; neither is opened with SQLite meanwhile.
    """
    with log.open("rb", buffering=0) as source, database.open("r+b") as target:
        log_format = _read_format(source)
        if log_format is None:
            return _unreadable(source)
        frames = list(_frames(source, log_format, range(1, _last_of_round(source, log_format) + 1)))
        state = _state(log_format, len(frames), 0, frames)
        size = 0
        for frame in frames[: state.committed]:
            size = frame.size_after or size
            if frame.is_sound:
                target.seek((frame.page - 1) * log_format.page_size)
                offset = log_format.offset(frame.number) + FRAME_HEADER
                target.write(_read_at(source, offset, log_format.page_size))
        if size:
            target.truncate(size * log_format.page_size)
    return state


def _inspected(file: BinaryIO, abort_check: Callable[[], None]) -> WalState:
    log_format = _read_format(file)
    if log_format is None:
        return _unreadable(file)
    # Most logs are intact, and SQLite is the fastest to say so. Our own check begins where it
    # stops, and ends at the last commit.
    accepted = (
        0
        if log_format.seed is None
        else count_valid_frames(file, log_format.page_size, abort_check)
    )
    last = _last_of_round(file, log_format, abort_check)
    end = _last_end(file, log_format, range(accepted + 1, last + 1), abort_check) or accepted
    rest = _frames(file, log_format, range(accepted + 1, end + 1), abort_check)
    return _state(log_format, last, accepted, rest)


def _state(log_format: _LogFormat, count: int, accepted: int, rest: Iterable[_Frame]) -> WalState:
    """Return the content of a log of *count* frames; those up to *accepted* are intact."""
    before, committed = 0, accepted
    damaged: list[int] = []
    for frame in rest:
        if not (frame.is_sound and frame.is_marked):
            damaged.append(frame.number)
        # Frames after the last intact commit were being written during the crash; that is not
        # damage.
        if frame.size_after and frame.is_sound:
            before, committed = committed, frame.number
    is_header_damaged = log_format.seed is None
    return WalState(
        log_format.page_size, count, tuple(damaged), is_header_damaged, committed, before
    )


def _unreadable(file: BinaryIO) -> WalState:
    if _is_zeros(file):
        # Allocated but never written, as after a crash of the machine.
        return WalState()
    return WalState(is_header_damaged=True, frames=_length(file) > _HEADER)


def _read_format(file: BinaryIO) -> _LogFormat | None:
    """Return the parameters from the header or, if it is damaged, from the first frames; None if
    neither can be read.
    """
    header = _read_at(file, 0, _HEADER).ljust(_HEADER, b"\0")
    magic, _, page_size, _, salt_1, salt_2, sum_1, sum_2 = struct.unpack(">8I", header)
    order = _MAGIC.get(magic)
    if (
        order is not None
        and _is_page_size(page_size)
        and plain_sums(order, header[:24], (0, 0)) == (sum_1, sum_2)
    ):
        return _LogFormat(page_size, order, (salt_1, salt_2), (sum_1, sum_2))
    if _is_zeros(file):
        return None
    return _guess_format(_read_at(file, 0, _HEADER + 2 * (FRAME_HEADER + _LARGEST_PAGE)))


def _frames(
    file: BinaryIO,
    log_format: _LogFormat,
    numbers: range,
    abort_check: Callable[[], None] = lambda: None,
) -> Iterator[_Frame]:
    """Yield the frames of these numbers, read in blocks."""
    at_once = max(1, min(_FRAMES_AT_ONCE, _BYTES_AT_ONCE // log_format.step))
    seed = log_format.seed
    if numbers and numbers[0] > 1:
        before = _frame_header(file, log_format, numbers[0] - 1)
        seed = (before[4], before[5])
    for block_numbers in (numbers[at : at + at_once] for at in range(0, len(numbers), at_once)):
        wanted = len(block_numbers) * log_format.step
        block = _read_at(file, log_format.offset(block_numbers[0]), wanted)
        if len(block) < wanted:
            return  # It was truncated meanwhile.
        headers = [struct.unpack_from(">6I", block, at) for at in range(0, wanted, log_format.step)]
        stored = [(header[4], header[5]) for header in headers]
        counted = frame_sums(log_format.order, block, [seed or (0, 0), *stored[:-1]], abort_check)
        if seed is None:
            counted[0] = stored[0]  # Its seed is unknown.
        for number, header, *sums in zip(block_numbers, headers, counted, stored, strict=True):
            page, size_after, *salts = header[:4]
            is_sound = page != 0 and sums[0] == sums[1]
            yield _Frame(number, page, size_after, is_sound, tuple(salts) == log_format.salts)
        seed = stored[-1]


def _last_of_round(
    file: BinaryIO, log_format: _LogFormat, abort_check: Callable[[], None] = lambda: None
) -> int:
    """Return the number of the last frame of the current generation, 0 if there is none.

    Older frames may follow. A frame before it with other salts is damaged.
    """
    for number in range((_length(file) - _HEADER) // log_format.step, 0, -1):
        abort_check()
        page, _, *salts = _frame_header(file, log_format, number)[:4]
        if page != 0 and tuple(salts) == log_format.salts:
            return number
    return 0


def _last_end(
    file: BinaryIO, log_format: _LogFormat, numbers: range, abort_check: Callable[[], None]
) -> int | None:
    """Return the last of these frames that ends a transaction."""
    for number in reversed(numbers):
        abort_check()
        page, size_after, *_ = _frame_header(file, log_format, number)
        if page != 0 and size_after != 0:
            return number
    return None


def _frame_header(file: BinaryIO, log_format: _LogFormat, number: int) -> tuple[int, ...]:
    """Return the header of a frame; zeros if it is missing."""
    raw = _read_at(file, log_format.offset(number), FRAME_HEADER)
    return struct.unpack(">6I", raw.ljust(FRAME_HEADER, b"\0"))


def _guess_format(raw: bytes) -> _LogFormat | None:
    """Return the page size and byte order for which the second frame is intact."""
    size = _SMALLEST_PAGE
    while size <= _LARGEST_PAGE:
        step = FRAME_HEADER + size
        if len(raw) >= _HEADER + 2 * step:
            first = struct.unpack_from(">6I", raw, _HEADER)
            second = struct.unpack_from(">6I", raw, _HEADER + step)
            if first[2:4] == second[2:4]:
                block = raw[_HEADER + step : _HEADER + 2 * step]
                for order in _MAGIC.values():
                    if frame_sums(order, block, [first[4:6]]) == [second[4:6]]:
                        return _LogFormat(size, order, (first[2], first[3]), None)
        size *= 2
    return None


def _is_page_size(number: int) -> bool:
    return _SMALLEST_PAGE <= number <= _LARGEST_PAGE and number & (number - 1) == 0


def _is_zeros(file: BinaryIO) -> bool:
    offset = 0
    while piece := _read_at(file, offset, _BYTES_AT_ONCE):
        if piece.strip(b"\0"):
            return False
        offset += len(piece)
    return True


def _length(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _read_at(file: BinaryIO, offset: int, wanted: int) -> bytes:
    """Return *wanted* bytes, or fewer at the end of the file."""
    file.seek(offset)
    return file.read(wanted)
