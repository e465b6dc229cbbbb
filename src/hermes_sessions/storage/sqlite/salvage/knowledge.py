"""What the indexes of a damaged file still know of rows that its tables have lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from hermes_sessions.storage.sqlite.salvage.bisecting import open_copy
from hermes_sessions.storage.sqlite.salvage.rows import DAMAGE

_UNREADABLE = (*DAMAGE, apsw.SQLError, apsw.NotADBError)


class Knowledge(NamedTuple):
    """Ids that existed when the file was sound."""

    sessions: set[str]
    #: Ids of messages.
    messages: set[int]
    #: Their places, by session.
    places: dict[str, set[int]]


def ask_indexes(copy: Path) -> Knowledge:
    """Return what is known of messages and sessions, however little that is."""
    known = Knowledge(set(), set(), {})
    try:
        connection = open_copy(copy)
    except apsw.Error:
        return known
    try:
        for name, ordinal, rowid in _both_ways(
            connection,
            "SELECT session_id, ordinal, rowid FROM messages INDEXED BY idx_messages_ordinal "
            "ORDER BY session_id {0}, ordinal {0}",
        ):
            known.messages.add(rowid)
            if isinstance(ordinal, int):
                known.places.setdefault(str(name), set()).add(ordinal)
        for (name,) in _both_ways(
            connection,
            "SELECT id FROM sessions INDEXED BY sqlite_autoindex_sessions_1 ORDER BY id {0}",
        ):
            known.sessions.add(str(name))
    finally:
        connection.close(True)
    return known


def _both_ways(connection: apsw.Connection, sql: str) -> Iterator[tuple[Any, ...]]:
    """Yield what can be read of an index from its beginning, and if need be from its end."""
    for direction in ("ASC", "DESC"):
        try:
            yield from connection.execute(sql.format(direction))
        except (*_UNREADABLE, UnicodeError):
            continue
        return


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return numbers as ranges, both ends included."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
