"""The first hundred bytes of a file, made good in a private copy so that SQLite reads the rest."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from hermes_sessions.storage.sqlite.schema import APPLICATION_ID

_LENGTH: Final = 100
_MAGIC: Final = b"SQLite format 3\0"
_PAGE_SIZES: Final = (4096, 1024, 2048, 8192, 16384, 32768, 65536, 512)
_TREE_PAGES: Final = frozenset((2, 5, 10, 13))
_BYTES_LOOKED_AT: Final = 8 * 1024 * 1024
_LARGEST: Final = 65536


class Mended(NamedTuple):
    """What was wrong with a header."""

    page_size: int
    was_lost: bool = False
    #: Pages that the header promises and the file does not have.
    missing_pages: int = 0


def mend_header(path: Path) -> Mended:
    """Make the header of a private copy readable, and the copy as long as it says."""
    with path.open("r+b") as file:
        raw = bytearray(file.read(_LENGTH).ljust(_LENGTH, b"\0"))
        size = file.seek(0, 2)
        page_size = _stated_page_size(raw)
        was_lost = page_size == 0
        if was_lost:
            page_size = _likely_page_size(path, size)
            raw = _new_header(raw, page_size)
        # A page that was cut off would be taken for one that holds zeros.
        pages = max(size // page_size, 1)
        promised = struct.unpack_from(">I", raw, 28)[0]
        missing = max(0, promised - pages) if not was_lost else 0
        # The journal that readers are to look for has been applied, or is beside the copy.
        raw[18:20] = b"\1\1"
        struct.pack_into(">I", raw, 28, pages)
        raw[92:96] = raw[24:28]
        file.seek(0)
        file.write(raw)
        file.truncate(pages * page_size)
    return Mended(page_size, was_lost, missing)


def is_marked_as_ours(path: Path) -> bool:
    """Return whether a header says that this program made the file."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(_LENGTH)[68:72]) == APPLICATION_ID


def _stated_page_size(raw: bytearray) -> int:
    """Return the size of pages that a sound header states, 0 for one that is not."""
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
    """Return the size at whose multiples most pages begin as those of a tree do."""
    best, most = 4096, -1.0
    with path.open("rb") as file:
        for size in _PAGE_SIZES:
            trees = looked_at = 0
            for offset in range(size, min(length, _BYTES_LOOKED_AT), size):
                file.seek(offset)
                head = file.read(8)
                looked_at += 1
                trees += _begins_a_tree(head, size)
            # At half of the size every other place is the middle of a page, and at twice the size
            # every other page is passed over.
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
