"""Space used by the tables and indexes of a file.

Counting every page is exact, but takes minutes for ten gigabytes. A store created by this product
also has a pointer map (SQLite needs it for incremental vacuum), one page for 819 others, which
gives the same result in seconds. The map is read from the file, without the pages still in the log.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import apsw

from hermes_sessions.storage.provider import Space

#: A file of at most this many pages is counted page by page; the log may be a large part of it.
_FEW_PAGES: Final = 25_000
_AT_ONCE: Final = 256
_ENTRY: Final = 5
_ROOT, _FREE, _LAST_KIND = 1, 2, 5
_FIRST_MAP: Final = 2
#: The page with this byte contains only SQLite's locks.
_LOCKS_AT: Final = 0x40000000


def measure(
    connection: apsw.Connection,
    log_bytes: int,
    has_time: Callable[[], bool] | None = None,
    *,
    few_pages: int = _FEW_PAGES,
) -> Space:
    """Return the space of every table and index, and the free space.

    Without *has_time* every page is counted. Otherwise a file of more than *few_pages* pages is
    measured by its map, if it has one, until *has_time* returns False.
    """
    page_size = int(connection.pragma("page_size"))
    total = int(connection.pragma("page_count"))
    free = int(connection.pragma("freelist_count"))
    uses_map = (
        has_time is not None
        and total > few_pages
        and int(connection.pragma("auto_vacuum")) != 0
        # Not for an in-memory database, nor for one that is mostly in the log.
        and _length(connection) > total // 2 * page_size
    )
    goes_on = has_time or (lambda: True)
    if uses_map:
        counted, missing = _by_map(connection, page_size, free, goes_on)
    else:
        counted, missing = _by_pages(connection, total - free, goes_on)
    kinds = {
        str(name): str(kind)
        for name, kind in connection.execute("SELECT name, type FROM sqlite_schema")
    }
    sizes = {name: pages * page_size for name, pages in counted.items()}
    # Automatic indexes of keys have names, too.
    indexes = {name: size for name, size in sizes.items() if kinds.get(name) == "index"}
    return Space(
        {name: size for name, size in sizes.items() if name not in indexes},
        indexes,
        free_bytes=free * page_size,
        log_bytes=log_bytes,
        is_estimate=uses_map and log_bytes > 0,
        uncounted_bytes=missing * page_size,
    )


def _length(connection: apsw.Connection) -> int:
    return os.stat(connection.filename).st_size if connection.filename else 0


def _by_pages(
    connection: apsw.Connection, used: int, has_time: Callable[[], bool]
) -> tuple[Counter[str], int]:
    """Return the pages by name, and how many were not counted in time."""
    counted: Counter[str] = Counter()
    names = (str(row[0]) for row in connection.execute("SELECT name FROM dbstat"))
    while has_time():
        some = list(islice(names, _AT_ONCE))
        counted.update(some)
        if len(some) < _AT_ONCE:
            return counted, 0
    return counted, used - counted.total()


def _by_map(
    connection: apsw.Connection, page_size: int, free: int, has_time: Callable[[], bool]
) -> tuple[Counter[str], int]:
    """Return the pages by name, and how many belong to an unknown owner."""
    total = _length(connection) // page_size
    usable = page_size - connection.read("main", 0, 20, 1)[1][0]
    entries = usable // _ENTRY
    starts = range(_FIRST_MAP, total + 1, entries + 1)
    locks = _LOCKS_AT // page_size + 1
    parents = array("I", bytes(4 * (total + 1)))
    parents[1] = 1
    mapped_free = 0
    for start in starts:
        if not has_time():
            break
        at = start + 1 if start == locks else start
        _, raw = connection.read("main", 0, (at - 1) * page_size, entries * _ENTRY)
        mapped_free += _note_parents(parents, at + 1, raw)
    if locks <= total:
        parents[locks] = 0
    found = Counter(_roots(parents, has_time))
    counted: Counter[str] = Counter()
    for name, root in connection.execute(
        "SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0 "
        "UNION ALL SELECT 'sqlite_schema', 1"
    ):
        counted[str(name)] += found[int(str(root))]
    # The map's own count of free pages is best, unless the map was not read to its end.
    free = mapped_free if has_time() else max(free, mapped_free)
    of_no_tree = len(starts) + (locks <= total) + free
    return +counted, max(0, total - counted.total() - of_no_tree)


def _note_parents(parents: array[int], first: int, raw: bytes) -> int:
    """Store the parent of each page from *first* on, and return how many are free.

    The root of a tree is its own parent; 0 means free or unknown.
    """
    free = 0
    last = len(parents) - 1
    for number, (kind, parent) in enumerate(struct.iter_unpack(">BI", raw), start=first):
        if number > last:
            break
        if kind == _ROOT:
            parents[number] = number
        elif kind == _FREE:
            free += 1
        elif kind <= _LAST_KIND and parent <= last:
            parents[number] = parent
    return free


def _roots(parents: array[int], has_time: Callable[[], bool]) -> Iterator[int]:
    """Yield the root of each page's tree, as long as there is time."""
    for number in range(1, len(parents)):
        if number % _AT_ONCE == 0 and not has_time():
            return
        passed = []
        root = number
        while parents[root] != root:
            passed.append(root)
            root = parents[root]
            if len(passed) > len(parents):
                break  # A damaged map contains cycles.
        for page in passed:
            parents[page] = root
        yield root
