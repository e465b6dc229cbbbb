"""A write-ahead log, read frame by frame and copied into the file it belongs to.

SQLite stops at the first frame that is not as it was written, and never says that there was more.
Every frame's checksum goes on from that of the frame before, which is stored: so each one can be
checked for itself, and one that is damaged does not take the others with it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_HEADER: Final = 32
_FRAME: Final = 24
_MAGIC: Final = {0x377F0682: "<", 0x377F0683: ">"}
_SMALLEST_PAGE: Final = 512
_LARGEST_PAGE: Final = 65536


class LogState(NamedTuple):
    """What a log holds."""

    page_size: int = 0
    #: Frames of the present round; older ones may lie behind them and mean nothing.
    frames: int = 0
    #: Those that are not as they were written, from 1.
    damaged: tuple[int, ...] = ()
    is_header_damaged: bool = False
    #: How many frames belong to transactions that were committed.
    committed: int = 0
    #: The last frame of the transaction before the last one that was committed.
    committed_before: int = 0

    @property
    def loses_writes(self) -> bool:
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
    offset: int


def inspect_log(path: Path, go_on: Callable[[], None] = lambda: None) -> LogState:
    """Return what the log at *path* holds; nothing when there is none.

    *go_on* is called before every page, and raises what ends it.
    """
    return _read(path, [], go_on)


def apply_log(log: Path, database: Path) -> LogState:
    """Copy what was committed, and is sound, from a log into its database, and return what was
    found. Both are private copies that nobody else uses; neither is opened with SQLite meanwhile.
    """
    frames: list[_Frame] = []
    state = _read(log, frames)
    if not state.committed:
        return state
    with log.open("rb") as source, database.open("r+b") as target:
        size = 0
        for frame in frames[: state.committed]:
            size = frame.size_after or size
            if frame.is_sound:
                source.seek(frame.offset + _FRAME)
                target.seek((frame.page - 1) * state.page_size)
                target.write(source.read(state.page_size))
        if size:
            target.truncate(size * state.page_size)
    return state


def _read(path: Path, frames: list[_Frame], go_on: Callable[[], None] = lambda: None) -> LogState:
    """Return what the log holds, and put its frames into *frames*."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return LogState()
    if not raw.strip(b"\0"):
        # Room that was taken and never written, as a crash of the machine leaves it.
        return LogState()
    header = raw[:_HEADER].ljust(_HEADER, b"\0")
    magic, _, page_size, _, salt_1, salt_2, *stored = struct.unpack(">8I", header)
    order = _MAGIC.get(magic, "")
    is_sound = bool(order) and _is_page_size(page_size)
    if is_sound:
        is_sound = _checksum(order, header[:24], (0, 0)) == (stored[0], stored[1])
    if not is_sound:
        found = _guess(raw)
        if found is None:
            return LogState(is_header_damaged=True, frames=len(raw) > _HEADER)
        page_size, order = found
        salt_1, salt_2 = struct.unpack_from(">2I", raw, _HEADER + 8)
    seed = (stored[0], stored[1]) if is_sound else None
    for frame in _frames(raw, page_size, order, (salt_1, salt_2), seed):
        go_on()
        frames.append(frame)
    # What comes after the last sound end of a transaction was being written when the machine, or
    # the program, went down: that is no damage.
    ends = [f.number for f in frames if f.size_after and f.is_sound]
    committed, before = (ends or [0])[-1], ([0, 0, *ends])[-2]
    damaged = tuple(f.number for f in frames if not (f.is_sound and f.is_marked))
    return LogState(page_size, len(frames), damaged, not is_sound, committed, before)


def _frames(
    raw: bytes, page_size: int, order: str, salts: tuple[int, int], seed: tuple[int, int] | None
) -> Iterator[_Frame]:
    step = _FRAME + page_size
    headers = [
        (number, offset, struct.unpack_from(">6I", raw, offset))
        for number, offset in enumerate(range(_HEADER, len(raw) - step + 1, step), start=1)
    ]
    # Behind the last frame of this round there may be older ones. Before it there are none: one
    # that does not say that it belongs to the round is damaged.
    while headers and (headers[-1][2][2:4] != salts or headers[-1][2][0] == 0):
        headers.pop()
    for number, offset, (page, size_after, *rest) in headers:
        stored = (rest[2], rest[3])
        is_sound = page != 0
        if seed is not None and is_sound:
            counted = _checksum(order, raw[offset : offset + 8], seed)
            data = raw[offset + _FRAME : offset + step]
            is_sound = _checksum(order, data, counted) == stored
        is_marked = (rest[0], rest[1]) == salts
        yield _Frame(number, page, size_after, is_sound, is_marked, offset)
        seed = stored


def _checksum(order: str, data: bytes, seed: tuple[int, int]) -> tuple[int, int]:
    first, second = seed
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & 0xFFFFFFFF
        second = (second + words[index + 1] + first) & 0xFFFFFFFF
    return first, second


def _is_page_size(number: int) -> bool:
    return _SMALLEST_PAGE <= number <= _LARGEST_PAGE and number & (number - 1) == 0


def _guess(raw: bytes) -> tuple[int, str] | None:
    """Return the size of pages and the order of bytes with which the second frame is sound."""
    size = _SMALLEST_PAGE
    while size <= _LARGEST_PAGE:
        step = _FRAME + size
        if len(raw) >= _HEADER + 2 * step:
            first = struct.unpack_from(">6I", raw, _HEADER)
            second = struct.unpack_from(">6I", raw, _HEADER + step)
            if first[2:4] == second[2:4]:
                start = _HEADER + step
                for order in _MAGIC.values():
                    seed = _checksum(order, raw[start : start + 8], (first[4], first[5]))
                    data = raw[start + _FRAME : start + step]
                    if _checksum(order, data, seed) == (second[4], second[5]):
                        return size, order
        size *= 2
    return None
