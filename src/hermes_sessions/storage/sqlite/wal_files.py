"""A write-ahead log, read frame by frame and copied into the file it belongs to.

SQLite stops at the first frame that is not as it was written, and never says that there was more.
Every frame's checksum goes on from that of the frame before, which is stored: so each one can be
checked for itself, and one that is damaged does not take the others with it.
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

# A write-ahead log that lies where a store is made, and belongs to one that is not there any more.
#
# Somebody has removed or moved a store without it. SQLite would delete it, and with it whatever was
# written last and not yet copied back; so it gets another name.


logger = Logger(__name__)


_FLAGS: Final = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE


def set_aside_orphaned_wal(real: str) -> str | None:
    """Give the log beside *real*, a file that this process has just created, another name; return
    that, or None when there is none, or somebody else was there first.
    """
    file = apsw.VFSFile("", real, [_FLAGS, 0])
    try:
        try:
            # Who opens the new file meanwhile waits: a log that is there after this is its own.
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
    # Only an index of the log; whoever still reads the old store has it in memory.
    with suppress(FileNotFoundError):
        os.unlink(f"{real}-shm")
    logger.warning(
        "%s was made anew; the write-ahead log of a store that was removed or moved is kept as %s. "
        "It belongs to that store: lay it beside it as NAME-wal before you open it.",
        real,
        kept,
    )
    return kept


# Whether everything that a write-ahead log holds would be read.
#
# SQLite stops at the first page in it that is not as it was written, without a word, and deletes
# the log of an empty file, even to look at it.


def require_intact_wal(
    path: Path, repair: str = "hermes repair", go_on: Callable[[], None] = lambda: None
) -> None:
    """Refuse a file with a log of which SQLite would leave out a part; *repair* is the command
    that saves it. Nothing is changed. *go_on* raises what ends the look, page by page.

    Raises:
        StoreCorrupt: it says so.
    """
    real = os.path.realpath(path)
    if wal_size(real) == 0:
        return
    if os.stat(real).st_size == 0:
        raise StoreCorrupt(
            f"{path}: it is empty, but its write-ahead log is not; nothing was changed. "
            f"To save what is in there: {repair}"
        )
    # Needed after a crash alone; not loaded otherwise.
    from hermes_sessions.storage.sqlite.store_replacement import require_unused

    try:
        require_unused(Path(real))
    except StoreLocked:
        return  # Whoever came first has read it already, and may be writing it.
    if inspect_wal(Path(f"{real}-wal"), go_on).drops_commits:
        raise StoreCorrupt(
            f"{path}: its write-ahead log is damaged, and some writes would be missing; "
            f"nothing was changed. To save them: {repair}"
        )


_HEADER: Final = 32
_MAGIC: Final[dict[int, Order]] = {0x377F0682: "<", 0x377F0683: ">"}
_SMALLEST_PAGE: Final = 512
_LARGEST_PAGE: Final = 65536
#: How much is read at once: as many frames as are fastest, and not more than so many bytes.
_FRAMES_AT_ONCE: Final = 512
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
#: How often a log is read that others begin again meanwhile.
_MOST_LOOKS: Final = 10


class WalState(NamedTuple):
    """What a log holds."""

    page_size: int = 0
    #: Frames of the present round; older ones may lie behind them and mean nothing.
    frames: int = 0
    #: Those that are not as they were written, from 1. What comes after the last end of a
    #: transaction is not always looked at.
    damaged: tuple[int, ...] = ()
    is_header_damaged: bool = False
    #: How many frames belong to transactions that were committed.
    committed: int = 0
    #: The last frame of the transaction before the last one that was committed; 0 as well when
    #: everything up to that is sound.
    committed_before: int = 0

    @property
    def drops_commits(self) -> bool:
        """Whether SQLite would leave out what was committed and made durable. (Of the very last
        transaction a crash of the machine may have left a part, and nobody was told of it.)
        """
        if self.is_header_damaged:
            return self.frames > 0
        return any(number <= self.committed_before for number in self.damaged)

    @property
    def is_damaged(self) -> bool:
        """Whether something that was committed cannot be trusted."""
        if self.is_header_damaged:
            return self.frames > 0
        return any(number <= self.committed for number in self.damaged)


class _Frame(NamedTuple):
    number: int
    page: int
    #: The size of the database in pages, when this frame ends a transaction.
    size_after: int
    #: Whether its page is as it was written.
    is_sound: bool
    #: Whether it says that it belongs to this round; SQLite stops at one that does not.
    is_marked: bool


class _Shape(NamedTuple):
    """What must be known to read frames."""

    page_size: int
    order: Order
    #: What marks the frames of this round.
    salts: tuple[int, int]
    #: From which the first frame's checksum goes on; None when the header is damaged.
    seed: Sums | None

    @property
    def step(self) -> int:
        return FRAME_HEADER + self.page_size

    def offset(self, number: int) -> int:
        """Return where the frame of that number begins."""
        return _HEADER + (number - 1) * self.step


def inspect_wal(path: Path, go_on: Callable[[], None] = lambda: None) -> WalState:
    """Return what the log at *path* holds; nothing when there is none. It may be written
    meanwhile.

    *go_on* is called now and then, and raises what ends it.
    """
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        return WalState()
    with file:
        for _ in range(_MOST_LOOKS):
            header = _read_at(file, 0, _HEADER)
            state = _inspected(file, go_on)
            if _read_at(file, 0, _HEADER) == header:
                return state
    # Others begin it again all the time: they have read it, and found it whole.
    return WalState()
    # It began anew, and what was read is of two rounds.


def apply_wal(log: Path, database: Path) -> WalState:
    """Copy what was committed, and is sound, from a log into its database, and return what was
    found. Both are private copies that nobody else uses; neither is opened with SQLite meanwhile.
    """
    with log.open("rb", buffering=0) as source, database.open("r+b") as target:
        shape = _shape(source)
        if shape is None:
            return _unreadable(source)
        frames = list(_frames(source, shape, range(1, _last_of_round(source, shape) + 1)))
        state = _state(shape, len(frames), 0, frames)
        size = 0
        for frame in frames[: state.committed]:
            size = frame.size_after or size
            if frame.is_sound:
                target.seek((frame.page - 1) * shape.page_size)
                offset = shape.offset(frame.number) + FRAME_HEADER
                target.write(_read_at(source, offset, shape.page_size))
        if size:
            target.truncate(size * shape.page_size)
    return state


def _inspected(file: BinaryIO, go_on: Callable[[], None]) -> WalState:
    shape = _shape(file)
    if shape is None:
        return _unreadable(file)
    # Most logs are sound, and SQLite is the fastest to say so. Looking for ourselves begins where
    # it stops, and ends where no transaction ends any more.
    accepted = 0 if shape.seed is None else count_valid_frames(file, shape.page_size, go_on)
    last = _last_of_round(file, shape, go_on)
    end = _last_end(file, shape, range(accepted + 1, last + 1), go_on) or accepted
    rest = _frames(file, shape, range(accepted + 1, end + 1), go_on)
    return _state(shape, last, accepted, rest)


def _state(shape: _Shape, count: int, accepted: int, rest: Iterable[_Frame]) -> WalState:
    """Return what a log of *count* frames holds, of which those up to *accepted* are sound."""
    before, committed = 0, accepted
    damaged: list[int] = []
    for frame in rest:
        if not (frame.is_sound and frame.is_marked):
            damaged.append(frame.number)
        # What comes after the last sound end of a transaction was being written when the machine,
        # or the program, went down: that is no damage.
        if frame.size_after and frame.is_sound:
            before, committed = committed, frame.number
    is_header_damaged = shape.seed is None
    return WalState(shape.page_size, count, tuple(damaged), is_header_damaged, committed, before)


def _unreadable(file: BinaryIO) -> WalState:
    if _is_zeros(file):
        # Room that was taken and never written, as a crash of the machine leaves it.
        return WalState()
    return WalState(is_header_damaged=True, frames=_length(file) > _HEADER)


def _shape(file: BinaryIO) -> _Shape | None:
    """Return what the header says, or the first frames show when it is damaged; None when neither
    can be read.
    """
    header = _read_at(file, 0, _HEADER).ljust(_HEADER, b"\0")
    magic, _, page_size, _, salt_1, salt_2, sum_1, sum_2 = struct.unpack(">8I", header)
    order = _MAGIC.get(magic)
    if (
        order is not None
        and _is_page_size(page_size)
        and plain_sums(order, header[:24], (0, 0)) == (sum_1, sum_2)
    ):
        return _Shape(page_size, order, (salt_1, salt_2), (sum_1, sum_2))
    if _is_zeros(file):
        return None
    return _guess(_read_at(file, 0, _HEADER + 2 * (FRAME_HEADER + _LARGEST_PAGE)))


def _frames(
    file: BinaryIO, shape: _Shape, numbers: range, go_on: Callable[[], None] = lambda: None
) -> Iterator[_Frame]:
    """Yield the frames of these numbers, and read them in blocks."""
    at_once = max(1, min(_FRAMES_AT_ONCE, _BYTES_AT_ONCE // shape.step))
    seed = shape.seed
    if numbers and numbers[0] > 1:
        before = _frame_header(file, shape, numbers[0] - 1)
        seed = (before[4], before[5])
    for block_numbers in (numbers[at : at + at_once] for at in range(0, len(numbers), at_once)):
        wanted = len(block_numbers) * shape.step
        block = _read_at(file, shape.offset(block_numbers[0]), wanted)
        if len(block) < wanted:
            return  # It was cut off meanwhile.
        headers = [struct.unpack_from(">6I", block, at) for at in range(0, wanted, shape.step)]
        stored = [(header[4], header[5]) for header in headers]
        counted = frame_sums(shape.order, block, [seed or (0, 0), *stored[:-1]], go_on)
        if seed is None:
            counted[0] = stored[0]  # Nobody knows what it goes on from.
        for number, header, *sums in zip(block_numbers, headers, counted, stored, strict=True):
            page, size_after, *salts = header[:4]
            is_sound = page != 0 and sums[0] == sums[1]
            yield _Frame(number, page, size_after, is_sound, tuple(salts) == shape.salts)
        seed = stored[-1]


def _last_of_round(file: BinaryIO, shape: _Shape, go_on: Callable[[], None] = lambda: None) -> int:
    """Return the number of the last frame of this round, 0 when there is none.

    Behind it there may be older ones. Before it there are none: one that does not say that it
    belongs to the round is damaged.
    """
    for number in range((_length(file) - _HEADER) // shape.step, 0, -1):
        go_on()
        page, _, *salts = _frame_header(file, shape, number)[:4]
        if page != 0 and tuple(salts) == shape.salts:
            return number
    return 0


def _last_end(
    file: BinaryIO, shape: _Shape, numbers: range, go_on: Callable[[], None]
) -> int | None:
    """Return which of these frames is the last that says that it ends a transaction."""
    for number in reversed(numbers):
        go_on()
        page, size_after, *_ = _frame_header(file, shape, number)
        if page != 0 and size_after != 0:
            return number
    return None


def _frame_header(file: BinaryIO, shape: _Shape, number: int) -> tuple[int, ...]:
    """Return what stands before a page; zeros when it is not there."""
    raw = _read_at(file, shape.offset(number), FRAME_HEADER)
    return struct.unpack(">6I", raw.ljust(FRAME_HEADER, b"\0"))


def _guess(raw: bytes) -> _Shape | None:
    """Return the size of pages and the order of bytes with which the second frame is sound."""
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
                        return _Shape(size, order, (first[2], first[3]), None)
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
    """Return so many bytes, or fewer at the end of the file."""
    file.seek(offset)
    return file.read(wanted)
