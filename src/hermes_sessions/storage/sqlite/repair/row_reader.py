"""Reads a damaged file row by row, around the damage.

Rows are read in the order of their ids from both ends. Rows between two damaged parts are found by
bisection, and by the ids in the indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.repair.disk_format import carve
from hermes_sessions.storage.sqlite.repair.row_file import (
    LOST_AND_FOUND,
    LOST_COLUMNS,
    RowFile,
    table_of,
)
from hermes_sessions.storage.sqlite.row_scan import DAMAGE, quoted, rows_of

logger = Logger(__name__)

#: The maximum number of probes for unindexed ids in one table.
_MOST_QUESTIONS: Final = 20_000
_UNREADABLE: Final = (
    *DAMAGE,
    apsw.SQLError,
    apsw.NotADBError,
    apsw.MismatchError,
    UnicodeError,
)
OnRows = Callable[[int], None]


def open_copy(path: Path) -> apsw.Connection:
    """Open a private copy in a way that tolerates a damaged schema."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.pragma("trusted_schema", 0)
    connection.pragma("writable_schema", 1)
    return connection


def drop_duplicate_schema_entries(path: Path) -> list[str]:
    """Remove duplicate schema entries of a private copy; return their names."""
    twice = (
        "FROM sqlite_schema WHERE rowid NOT IN "
        "(SELECT MIN(rowid) FROM sqlite_schema GROUP BY type, name)"
    )
    connection = open_copy(path)
    try:
        found = connection.execute(f"SELECT DISTINCT name {twice}").fetchall()
        if found:
            connection.execute(f"DELETE {twice}")
    except _UNREADABLE as error:
        logger.info("The schema cannot be repaired: %s", error)
        return []
    finally:
        connection.close(True)
    return [str(name) for (name,) in found]


def read_row_by_row(copy: Path, page_size: int, into: RowFile, on_rows: OnRows) -> None:
    """Write every readable row of the private *copy* *into* a row file."""
    connection = open_copy(copy)
    complete = True
    done = 0
    try:
        for name, columns in readable_tables(connection).items():
            into.make(name, columns)
            reader = _TableReader(connection, name, columns)
            into.add(name, columns, reader.rows())
            done += into.count(name)
            on_rows(done)
            complete = complete and reader.is_complete
        for name in ("user_version", "application_id"):
            into.connection.pragma(name, int(connection.pragma(name)))
        _read_sequence(connection, into)
    except _UNREADABLE as error:
        logger.info("%s: the schema cannot be read: %s", copy, error)
        complete = False
    finally:
        connection.close(True)
    if not complete:
        carve_into(copy, page_size, into)


def readable_tables(connection: apsw.Connection) -> dict[str, list[str]]:
    """Return the columns of the tables that contain primary data."""
    listed = [
        (str(name), str(sql))
        for name, sql in rows_of(
            connection,
            "sqlite_schema",
            ("name", "sql"),
            "WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
            "AND sql IS NOT NULL ORDER BY rowid",
        )
    ]
    virtual = tuple(
        f"{name}_" for name, sql in listed if str(sql).upper().startswith("CREATE VIRTUAL")
    )
    tables = {}
    for name, sql in listed:
        if str(sql).upper().startswith("CREATE VIRTUAL") or str(name).startswith(
            virtual or ("\0",)
        ):
            continue
        try:
            found = connection.execute(
                "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (name,)
            )
            tables[str(name)] = [str(row[0]) for row in found]
        except _UNREADABLE as error:
            logger.info("%s cannot be read: %s", name, error)
    return {name: columns for name, columns in tables.items() if columns}


def known_ids(connection: apsw.Connection, table: str) -> tuple[set[int], bool]:
    """Return the row ids found in the table's indexes, from either end of each, and whether one
    index could be read completely.
    """
    ids: set[int] = set()
    is_whole = False
    try:
        indexes = connection.execute(
            "SELECT name, partial FROM pragma_index_list(?) WHERE origin IN ('c', 'pk', 'u')",
            (table,),
        ).fetchall()
    except _UNREADABLE:
        return ids, is_whole
    for name, is_partial in indexes:
        if is_partial:
            continue
        columns = [
            str(row[0])
            for row in connection.execute(
                "SELECT name FROM pragma_index_info(?) ORDER BY seqno", (name,)
            )
            if row[0] is not None
        ]
        for direction in ("ASC", "DESC"):
            order = ", ".join(f"{quoted(column)} {direction}" for column in columns)
            try:
                for (rowid,) in connection.execute(
                    f"SELECT rowid FROM {quoted(table)} INDEXED BY {quoted(str(name))} "
                    f"ORDER BY {order}"
                ):
                    ids.add(rowid)
            except _UNREADABLE:
                continue
            is_whole = True
            break
    return ids, is_whole


class _TableReader:
    """The rows of one table, each once."""

    def __init__(self, connection: apsw.Connection, table: str, columns: Sequence[str]) -> None:
        self._connection = connection
        self._table = table
        self._columns = columns
        self._questions = 0
        self._seen: set[int] = set()
        self.is_complete = True

    def rows(self) -> Iterator[Sequence[Any]]:
        """Yield the readable rows."""
        try:
            for row in self._between(None, None):
                self._seen.add(row[0])
                yield row[1:]
            return
        except apsw.SQLError:
            yield from self._without_rowid()
            return
        except _UNREADABLE as error:
            logger.info("%s is damaged: %s", self._table, error)
        self.is_complete = False
        yield from self._rest()

    def _without_rowid(self) -> Iterator[Sequence[Any]]:
        try:
            yield from rows_of(self._connection, self._table, self._columns)
        except _UNREADABLE as error:
            logger.info("%s is damaged: %s", self._table, error)
            self.is_complete = False

    def _rest(self) -> Iterator[Sequence[Any]]:
        """Yield the rows after the first damaged part."""
        low = max(self._seen, default=-(2**62))
        high = 2**62
        try:
            for row in self._between(low + 1, None, descending=True):
                high = row[0]
                if high not in self._seen:
                    self._seen.add(high)
                    yield row[1:]
        except _UNREADABLE:
            logger.debug("%s is also damaged below row %d", self._table, high)
        known, is_all = known_ids(self._connection, self._table)
        for rowid in sorted(known - self._seen):
            yield from self._one(rowid)
        if known:
            low, high = max(low, min(known)), min(high, max(known) + 1)
        if not is_all and high - low < 2**61:
            yield from self._bisect(low + 1, high - 1)

    def _one(self, rowid: int) -> Iterator[Sequence[Any]]:
        try:
            for row in self._between(rowid, rowid):
                self._seen.add(rowid)
                yield row[1:]
        except _UNREADABLE:
            return

    def _bisect(self, first: int, last: int) -> Iterator[Sequence[Any]]:
        """Yield rows between two ids, the widest gaps first, within the limit of probes."""
        waiting = [(first, last)]
        while waiting and self._questions < _MOST_QUESTIONS:
            waiting.sort(key=lambda gap: gap[1] - gap[0])
            first, last = waiting.pop()
            if first > last:
                continue
            middle = (first + last) // 2
            self._questions += 1
            reached = middle
            try:
                for row in self._between(middle, last):
                    reached = row[0] + 1
                    if row[0] not in self._seen:
                        self._seen.add(row[0])
                        yield row[1:]
                reached = last + 1
            except _UNREADABLE:
                # The unreadable row is somewhere after this.
                waiting.append((max(reached, middle) + 1, last))
            waiting.append((first, middle - 1))

    def _between(
        self, first: int | None, last: int | None, *, descending: bool = False
    ) -> Iterator[tuple[Any, ...]]:
        limits = [
            text
            for text, bound in (("rowid >= ?", first), ("rowid <= ?", last))
            if bound is not None
        ]
        where = f"WHERE {' AND '.join(limits)} " if limits else ""
        order = f"ORDER BY rowid {'DESC' if descending else 'ASC'}"
        bounds = [bound for bound in (first, last) if bound is not None]
        yield from rows_of(
            self._connection,
            self._table,
            ("rowid", *self._columns),
            f"NOT INDEXED {where}{order}",
            bounds,
        )


def _read_sequence(connection: apsw.Connection, into: RowFile) -> None:
    try:
        rows = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    except _UNREADABLE:
        return
    into.make("hermes_sequence", ("name", "seq"))
    into.add("hermes_sequence", ("name", "seq"), rows)


def carve_into(copy: Path, page_size: int, into: RowFile) -> None:
    """Write rows of all pages into ``lost_and_found``, except those recognised as derived data.

    `put_back` then uses the ones that are missing.
    """
    width = 0
    into.connection.execute("BEGIN")
    for row in carve(copy, page_size):
        if table_of(row.values) is None:
            continue
        if len(row.values) > width:
            width = len(row.values)
            into.make(LOST_AND_FOUND, (*LOST_COLUMNS, *(f"c{n}" for n in range(width))))
        columns = (*LOST_COLUMNS, *(f"c{n}" for n in range(len(row.values))))
        found = (row.page, row.page, len(row.values), row.rowid, *row.values)
        into.add(LOST_AND_FOUND, columns, [found])
    into.connection.execute("COMMIT")


# Evidence in the indexes of a damaged file for rows that its tables have lost.


_INDEX_UNREADABLE = (*DAMAGE, apsw.SQLError, apsw.NotADBError)


class IndexEvidence(NamedTuple):
    """Ids that existed when the file was intact."""

    sessions: set[str]
    #: Ids of messages.
    messages: set[int]
    #: Their ordinals, by session.
    places: dict[str, set[int]]


def read_index_evidence(copy: Path) -> IndexEvidence:
    """Return the known ids of messages and sessions, as far as they can be read."""
    known = IndexEvidence(set(), set(), {})
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
    """Yield the readable part of an index from its beginning and, if needed, from its end."""
    for direction in ("ASC", "DESC"):
        try:
            yield from connection.execute(sql.format(direction))
        except (*_INDEX_UNREADABLE, UnicodeError):
            continue
        return


def rows_lost(copy: Path, read: Mapping[str, int]) -> dict[str, int | None]:
    """Return the tables that had more rows than were *read*, with the number of lost rows.

    None for a damaged table without an index that tells.
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
    except _INDEX_UNREADABLE:
        return lost  # The schema itself is damaged, which is reported elsewhere.
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
    """Return numbers as inclusive ranges."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
