"""Rows carved from the pages of a file, even if the B-trees above them are damaged.

A row states how many values it has, and of which types, but not its table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from hermes_sessions.storage.sqlite.migrations import APPLICATION_ID

# Repairing the first hundred bytes of a private copy, so that SQLite can read the rest.


_LENGTH: Final = 100
_MAGIC: Final = b"SQLite format 3\0"
_PAGE_SIZES: Final = (4096, 1024, 2048, 8192, 16384, 32768, 65536, 512)
_TREE_PAGES: Final = frozenset((2, 5, 10, 13))
_BYTES_LOOKED_AT: Final = 8 * 1024 * 1024
_LARGEST: Final = 65536


class HeaderRepair(NamedTuple):
    """The result of repairing a header."""

    page_size: int
    was_lost: bool = False
    #: Pages that the header states but the file lacks.
    missing_pages: int = 0


def repair_header(path: Path) -> HeaderRepair:
    """Make the header of a private copy readable, and extend the copy to the stated length."""
    with path.open("r+b") as file:
        raw = bytearray(file.read(_LENGTH).ljust(_LENGTH, b"\0"))
        size = file.seek(0, 2)
        page_size = _stated_page_size(raw)
        was_lost = page_size == 0
        if was_lost:
            page_size = _likely_page_size(path, size)
            raw = _new_header(raw, page_size)
        # A truncated page would be read as a page of zeros.
        pages = max(size // page_size, 1)
        promised = struct.unpack_from(">I", raw, 28)[0]
        missing = max(0, promised - pages) if not was_lost else 0
        # The journal has already been applied, or is beside the copy.
        raw[18:20] = b"\1\1"
        struct.pack_into(">I", raw, 28, pages)
        raw[92:96] = raw[24:28]
        file.seek(0)
        file.write(raw)
        file.truncate(pages * page_size)
    return HeaderRepair(page_size, was_lost, missing)


def is_marked_as_ours(path: Path) -> bool:
    """Return whether a header says that this program created the file."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(_LENGTH)[68:72]) == APPLICATION_ID


def _stated_page_size(raw: bytearray) -> int:
    """Return the page size in an intact header, 0 for a damaged one."""
    size = int.from_bytes(raw[16:18])
    size = _LARGEST if size == 1 else size
    is_sound = (
        raw[:16] == _MAGIC
        and size in _PAGE_SIZES
        and raw[18] in (1, 2)
        and raw[19] in (1, 2)
        and raw[21:24] == b"\x40\x20\x20"
        and struct.unpack_from(">I", raw, 44)[0] in (1, 2, 3, 4)
        and struct.unpack_from(">I", raw, 56)[0] in (1, 2, 3)
    )
    return size if is_sound else 0


def _likely_page_size(path: Path, length: int) -> int:
    """Return the page size at whose multiples most B-tree pages begin."""
    best, most = 4096, -1.0
    with path.open("rb") as file:
        for size in _PAGE_SIZES:
            trees = looked_at = 0
            for offset in range(size, min(length, _BYTES_LOOKED_AT), size):
                file.seek(offset)
                head = file.read(8)
                looked_at += 1
                trees += _begins_a_tree(head, size)
            # At half the size every other position is the middle of a page; at twice the size every
            # other page is skipped.
            score = trees * trees / looked_at if looked_at else 0.0
            if score > most:
                best, most = size, score
    return best


def _begins_a_tree(head: bytes, page_size: int) -> bool:
    if len(head) < 8 or head[0] not in _TREE_PAGES:
        return False
    cells, content = int.from_bytes(head[3:5]), int.from_bytes(head[5:7])
    return cells * 2 + 8 <= page_size and (content == 0 or content <= page_size)


def _new_header(raw: bytearray, page_size: int) -> bytearray:
    header = bytearray(_LENGTH)
    header[:16] = _MAGIC
    struct.pack_into(">H", header, 16, 1 if page_size == _LARGEST else page_size)
    header[21:24] = b"\x40\x20\x20"
    for offset, number in ((24, 1), (40, 1), (44, 4), (56, 1), (96, 3_040_000)):
        struct.pack_into(">I", header, offset, number)
    if struct.unpack_from(">I", raw, 68)[0] == APPLICATION_ID:
        header[60:64], header[68:72] = raw[60:64], raw[68:72]
    return header


_LEAF: Final = 13
_FREE_LIST: Final = 32
_FIRST_PAGE_HEADER: Final = 100
_INTEGER_BYTES: Final = (0, 1, 2, 3, 4, 6, 8)
_MOST_VALUES: Final = 2000


class CarvedRow(NamedTuple):
    """A row found on a page."""

    page: int
    rowid: int
    values: list[Any]


class Carver:
    """Reads the pages of one file that no program writes."""

    def __init__(self, file: BinaryIO, page_size: int) -> None:
        self._file = file
        self._page_size = page_size
        self._usable = page_size - self._at(20, 1)[0]
        self._pages = file.seek(0, 2) // page_size

    def rows(self) -> Iterator[CarvedRow]:
        """Yield the rows of every page that is not in the free list."""
        free = self._free_pages()
        for page in range(1, self._pages + 1):
            if page not in free:
                yield from self._rows_on(page)

    def lengths(self) -> Iterator[tuple[int, list[int]]]:
        """Yield the id of every row, and the stated length in bytes of each of its texts.

        Overflow pages may be missing.
        """
        free = self._free_pages()
        for number in range(1, self._pages + 1):
            if number in free:
                continue
            page = self._page(number)
            for start in self._cells_on(number, page):
                try:
                    _, offset = _varint(page, start)
                    rowid, offset = _varint(page, offset)
                    kinds, _ = _kinds(page[offset:])
                except (IndexError, ValueError):
                    continue  # No longer a row.
                yield _signed(rowid), [(kind - 13) // 2 for kind in kinds if _is_text(kind)]

    def _rows_on(self, number: int) -> Iterator[CarvedRow]:
        page = self._page(number)
        for offset in self._cells_on(number, page):
            try:
                yield self._row(number, page, offset)
            except (IndexError, ValueError, struct.error):
                continue  # No longer a row.

    def _cells_on(self, number: int, page: bytes) -> tuple[int, ...]:
        """Return the offsets of the rows of a table page; empty for other pages."""
        start = _FIRST_PAGE_HEADER if number == 1 else 0
        if page[start] != _LEAF:
            return ()
        (cells,) = struct.unpack_from(">H", page, start + 3)
        if start + 8 + 2 * cells > len(page):
            return ()
        return struct.unpack_from(f">{cells}H", page, start + 8)

    def _row(self, number: int, page: bytes, offset: int) -> CarvedRow:
        length, offset = _varint(page, offset)
        rowid, offset = _varint(page, offset)
        payload = self._payload(page, offset, length)
        return CarvedRow(number, _signed(rowid), _record(payload))

    def _payload(self, page: bytes, offset: int, length: int) -> bytes:
        if length > self._pages * self._page_size:
            raise ValueError("longer than the file")
        here = length
        if length > self._usable - 35:
            least = (self._usable - 12) * 32 // 255 - 23
            here = least + (length - least) % (self._usable - 4)
            if here > self._usable - 35:
                here = least
        parts = [page[offset : offset + here]]
        if len(parts[0]) < here:
            raise ValueError("exceeds its page")
        left = length - here
        following = struct.unpack_from(">I", page, offset + here)[0] if left else 0
        seen: set[int] = set()
        while left > 0:
            if not 0 < following <= self._pages or following in seen:
                raise ValueError("overflow page is missing")
            seen.add(following)
            more = self._page(following)
            parts.append(more[4 : 4 + min(left, self._usable - 4)])
            left -= len(parts[-1])
            (following,) = struct.unpack_from(">I", more)
        return b"".join(parts)

    def _free_pages(self) -> set[int]:
        free: set[int] = set()
        (trunk,) = struct.unpack(">I", self._at(_FREE_LIST, 4))
        while 0 < trunk <= self._pages and trunk not in free:
            free.add(trunk)
            page = self._page(trunk)
            trunk, count = struct.unpack_from(">II", page)
            count = min(count, self._page_size // 4 - 2)
            free.update(struct.unpack_from(f">{count}I", page, 8))
        return free

    def _page(self, number: int) -> bytes:
        return self._at((number - 1) * self._page_size, self._page_size)

    def _at(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(length).ljust(length, b"\0")


def carve(path: Path, page_size: int) -> Iterator[CarvedRow]:
    """Yield every row on a table page."""
    with path.open("rb") as file:
        yield from Carver(file, page_size).rows()


def carve_lengths(path: Path, page_size: int) -> Iterator[tuple[int, list[int]]]:
    """Yield the id of every row on a table page, and the lengths of its texts in bytes."""
    with path.open("rb") as file:
        yield from Carver(file, page_size).lengths()


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    number = 0
    for _ in range(8):
        byte = data[offset]
        offset += 1
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, offset
    return number << 8 | data[offset], offset + 1


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def _record(payload: bytes) -> list[Any]:
    """Return the values of a row.

    Raises:
        ValueError, IndexError: not a valid row.
    """
    kinds, offset = _kinds(payload)
    values: list[Any] = []
    for kind in kinds:
        value, length = _value(payload, offset, kind)
        values.append(value)
        offset += length
    if offset != len(payload):
        raise ValueError("no row")
    return values


def _kinds(payload: bytes) -> tuple[list[int], int]:
    """Return the types of a row's values, and the offset of the first value."""
    header, offset = _varint(payload, 0)
    kinds: list[int] = []
    while offset < header:
        kind, offset = _varint(payload, offset)
        kinds.append(kind)
    if offset != header or len(kinds) > _MOST_VALUES:
        raise ValueError("no row")
    return kinds, offset


def _is_text(kind: int) -> bool:
    return kind >= 13 and kind % 2 == 1


def _value(payload: bytes, offset: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, 0
    if kind in (8, 9):
        return kind - 8, 0
    if kind == 7:
        return struct.unpack_from(">d", payload, offset)[0], 8
    if kind < len(_INTEGER_BYTES):
        length = _INTEGER_BYTES[kind]
        return int.from_bytes(payload[offset : offset + length], signed=True), length
    if kind < 12:
        raise ValueError("invalid value type")
    length = (kind - 12) // 2
    raw = payload[offset : offset + length]
    if len(raw) < length:
        raise ValueError("cut off")
    return (raw.decode("utf-8", "surrogateescape") if kind % 2 else raw), length
