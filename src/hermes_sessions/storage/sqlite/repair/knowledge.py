"""What the indexes of a damaged file still know of rows that its tables have lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from hermes_sessions.storage.sqlite.repair.row_reader import (
    known_ids,
    open_copy,
    readable_tables,
)
from hermes_sessions.storage.sqlite.repair.rows import DAMAGE, rows_of

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


def rows_lost(copy: Path, read: Mapping[str, int]) -> dict[str, int | None]:
    """Return the tables of which more rows were there than those that were *read*, with how many;
    None for a damaged one where no index tells.
    """
    lost: dict[str, int | None] = {}
    try:
        connection = open_copy(copy)
    except apsw.Error:
        return lost
    try:
        for table, columns in readable_tables(connection).items():
            if table not in read or _is_whole(connection, table, columns):
                continue
            known, is_all = known_ids(connection, table)
            if not is_all:
                lost[table] = None
            elif len(known) > read[table]:
                lost[table] = len(known) - read[table]
    except _UNREADABLE:
        return lost  # The list of tables itself is damaged, which is told elsewhere.
    finally:
        connection.close(True)
    return lost


def _is_whole(connection: apsw.Connection, table: str, columns: list[str]) -> bool:
    try:
        for _ in rows_of(connection, table, columns, "NOT INDEXED"):
            pass
    except DAMAGE:
        return False
    return True


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return numbers as ranges, both ends included."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
