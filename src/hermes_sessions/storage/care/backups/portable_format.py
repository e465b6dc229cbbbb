"""The portable format: rows as lines of JSON, identical for every database.

A line is a table's name and the values of a row, in the order of the columns in the manifest. The
rows of a session are adjacent and followed by a line with its checksum; then come the other tables.
Text is as in the columns of a database: the store's codec escapes what UTF-8 cannot represent.
Bytes are base64.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from hermes_sessions.errors import BackupRefused
from hermes_sessions.storage.care.backups.container import Container, SectionWriter
from hermes_sessions.storage.codec import decode_text, encode_text
from hermes_sessions.storage.provider import ReadTransaction, Row
from hermes_sessions.storage.session_copy.checksums import Checksum, SessionChecksum, typed_rows
from hermes_sessions.storage.session_copy.reader import Piece, columns, ids_page, read_pieces
from hermes_sessions.storage.tables import (
    ALL_TABLES,
    MESSAGES,
    REWINDS,
    SERVER_TABLES,
    SESSIONS,
    USAGE,
    Column,
    Table,
)

#: Every declared table, so that a new one is included automatically.
DECLARED: Final = {table.name: table for table in (*ALL_TABLES, *SERVER_TABLES)}
#: Tables that a portable backup excludes, and why.
EXCLUDED_TABLES: Final = {table.name: table.local for table in DECLARED.values() if table.local}
#: The tables of one session, in the order of its checksum.
OF_A_SESSION: Final = (SESSIONS, USAGE, REWINDS, MESSAGES)
#: All other included tables.
BESIDE: Final = tuple(
    table
    for table in DECLARED.values()
    if table not in OF_A_SESSION and table.name not in EXCLUDED_TABLES
)


INCLUDED_TABLES: Final = (*OF_A_SESSION, *BESIDE)


def names(table: Table) -> list[str]:
    """Return the names of the included columns."""
    return [column.name for column in table.copied]


def present(tx: ReadTransaction, tables_query: str | None) -> tuple[Table, ...]:
    """Return the included tables that a store has; with pending migrations it has fewer.

    *tables_query* is that of its `Dialect`.
    """
    if tables_query is None:
        return INCLUDED_TABLES
    there = {row[0] for row in tx.all(tables_query)}
    return tuple(table for table in INCLUDED_TABLES if table.name in there)


def count(tx: ReadTransaction, table: Table) -> int:
    """Return the number of rows in a table."""
    row = tx.one(f"SELECT COUNT(*) FROM {table.name}")
    return int(row[0]) if row else 0


#: Starts the line with a session's checksum; not a table name.
_SUM: Final = "="
_dump: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
#: Rows of a table that are prepared at a time.
_AT_ONCE: Final = 500
_LARGEST: Final = 2**63

#: Called with the number of messages read.
Advance = Callable[[int], None]


class BackedUpSession(NamedTuple):
    """The checksum of one session."""

    session_id: str
    messages: int
    #: None for a session with values that only SQLite can store.
    checksum: Checksum | None


class WrittenRows(NamedTuple):
    """The content of a written backup."""

    counts: dict[str, int]
    #: Rows that belong to no session, which no other database can store.
    left_out: dict[str, int]
    columns: dict[str, list[str]]


# Writing


def write_rows(
    tx: ReadTransaction,
    tables_query: str | None,
    rows: SectionWriter,
    note: Callable[[BackedUpSession], None],
    advance: Advance = lambda _: None,
) -> WrittenRows:
    """Write everything that *tx* sees, which must be one snapshot of the store.

    Raises:
        TransferRefused: a value has no portable form; the message says where it is.
    """
    there = present(tx, tables_query)
    written = WrittenRows(
        dict.fromkeys((table.name for table in there), 0),
        {},
        {table.name: names(table) for table in there},
    )

    def put(table: Table, found: Iterable[Row]) -> None:
        for row in found:
            rows.write_line(_line(table.name, row))
            written.counts[table.name] += 1

    messages = 0
    for piece in _all_pieces(tx):
        if piece.session is not None:
            put(SESSIONS, [piece.session])
            put(USAGE, piece.usage)
            put(REWINDS, piece.rewinds)
            messages = 0
        put(MESSAGES, piece.messages)
        messages += len(piece.messages)
        advance(len(piece.messages))
        if piece.checksum is not None:
            found = BackedUpSession(piece.session_id, messages, piece.checksum)
            rows.write_line(sum_line(found))
            note(found)
    for table in OF_A_SESSION:
        left = count(tx, table) - written.counts[table.name]
        if left:
            written.left_out[table.name] = left
    for table in BESIDE:
        if table in there:
            put(table, _all_rows(tx, table))
    return written


def _all_pieces(tx: ReadTransaction) -> Iterator[Piece]:
    after: str | None = None
    while page := ids_page(tx, after, None):
        yield from read_pieces(tx, page)
        after = page[-1]


def _all_rows(tx: ReadTransaction, table: Table) -> Iterator[Row]:
    order = ", ".join(f'"{name}"' for name in table.key)
    part: list[Row] = []
    for row in tx.stream(f"SELECT {columns(tx, table)} FROM {table.name} ORDER BY {order}"):
        part.append(row)
        if len(part) == _AT_ONCE:
            yield from typed_rows(table, part)
            part = []
    yield from typed_rows(table, part)


def _line(table: str, row: Row) -> bytes:
    return _dump([table, *map(_portable, row)]).encode("utf-8") + b"\n"


def _portable(value: Any) -> Any:
    if type(value) is bytes:
        return b64encode(value).decode("ascii")
    return encode_text(value) if type(value) is str else value


def sum_line(found: BackedUpSession) -> bytes:
    """Return the checksum line of one session."""
    checksum = str(found.checksum) if found.checksum is not None else None
    return (
        _dump([_SUM, encode_text(found.session_id), found.messages, checksum]).encode("utf-8")
        + b"\n"
    )


# Reading


def read_sums(container: Container, section: str = "sessions") -> Iterator[BackedUpSession]:
    """Yield the checksum of every session.

    Raises:
        BackupDamaged: a line is damaged.
    """
    for line in container.lines(section):
        values = _values(container, line)
        if values[0] != _SUM:
            raise container.damaged(f"{section!r} has an unexpected line")
        yield _sum_of(container, values)


def _sum_of(container: Container, values: list[Any]) -> BackedUpSession:
    match values:
        case [_, str(session_id), int(messages), None]:
            return BackedUpSession(decode_text(session_id), messages, None)
        case [_, str(session_id), int(messages), str(text)] if checksum := Checksum.read(text):
            return BackedUpSession(decode_text(session_id), messages, checksum)
    raise container.damaged("a session's checksum cannot be read")


def read_rows(container: Container) -> Iterator[tuple[Table, Row] | BackedUpSession]:
    """Yield the rows, each checked against its table, and after each session its verified checksum.

    Raises:
        BackupDamaged: a row is invalid, or a checksum differs.
    """
    shapes = _row_formats(container)
    summing: SessionChecksum | None = None
    session_id, messages = "", 0
    for line in container.lines("rows"):
        values = _values(container, line)
        if values[0] == _SUM:
            found = _sum_of(container, values)
            if summing is None or found != BackedUpSession(session_id, messages, summing.result()):
                raise container.damaged(f"session {found.session_id!r:.100} has a wrong checksum")
            summing = None
            yield found
            continue
        shape = shapes.get(values[0])
        if shape is None:
            raise container.damaged(f"it has rows of an unknown table {values[0]!r:.60}")
        table = shape.table
        row = shape.row_of(container, values)
        if table is SESSIONS:
            if summing is not None:
                raise container.damaged(f"session {session_id!r:.100} has no checksum")
            summing, session_id, messages = SessionChecksum(), row[0], 0
        elif (summing is not None) != (table in OF_A_SESSION):
            raise container.damaged(f"a row of {table.name} is out of place")
        if summing is not None:
            if table is not SESSIONS and row[shape.session] != session_id:
                raise container.damaged(f"a row of {table.name} is out of place")
            summing.add(table, [row])
            messages += table is MESSAGES
        yield table, row
    if summing is not None:
        raise container.damaged(f"session {session_id!r:.100} has no checksum")


class _RowFormat:
    """The row format of one table."""

    def __init__(self, table: Table, written: list[str]) -> None:
        self.table = table
        self._places = [
            written.index(column.name) + 1 if column.name in written else None
            for column in table.copied
        ]
        self._width = len(written) + 1
        self.session = names(table).index("session_id") if table in OF_A_SESSION[1:] else 0

    def row_of(self, container: Container, values: list[Any]) -> Row:
        if len(values) != self._width:
            raise container.damaged(f"a row of {self.table.name} has a wrong number of values")
        return tuple(
            column.default if place is None else self._checked(container, column, values[place])
            for column, place in zip(self.table.copied, self._places, strict=True)
        )

    def _checked(self, container: Container, column: Column, value: Any) -> Any:
        if value is None:
            is_fit = not column.required and column.kind != "serial"
        elif column.kind == "real":
            is_fit = type(value) is float
        elif column.kind in ("serial", "integer"):
            is_fit = type(value) is int and -_LARGEST <= value < _LARGEST
        elif column.kind == "bytes":
            value = _bytes(value)
            is_fit = value is not None
        else:
            is_fit = type(value) is str
            value = decode_text(value) if is_fit else value
        if not is_fit:
            raise container.damaged(
                f"{self.table.name}.{column.name} contains {value!r:.60}, which has the wrong type"
            )
        return value


def _bytes(value: Any) -> bytes | None:
    try:
        return b64decode(value, validate=True) if type(value) is str else None
    except ValueError:
        return None


def _row_formats(container: Container) -> dict[str, _RowFormat]:
    listed = container.manifest.get("columns")
    if not isinstance(listed, dict):
        raise container.damaged("its manifest does not list the columns")
    shapes = {}
    for name, written in listed.items():
        table = DECLARED.get(name)
        if not isinstance(written, list) or not all(isinstance(one, str) for one in written):
            raise container.damaged("its manifest does not list the columns")
        if table is None or name in EXCLUDED_TABLES or not set(written) <= set(names(table)):
            raise BackupRefused(
                f"{container.path} has a table or column that this version does not know (in "
                f"{name!r:.60}). Update this program, then try again."
            )
        if len(set(written)) != len(written):
            raise container.damaged("its manifest does not list the columns")
        shapes[name] = _RowFormat(table, written)
    missing = [table.name for table in OF_A_SESSION if table.name not in shapes]
    if missing:
        raise container.damaged(f"it has no table {missing[0]}")
    return shapes


def _values(container: Container, line: bytes) -> list[Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise container.damaged("a line of it cannot be read") from error
    if not isinstance(values, list) or not values or not isinstance(values[0], str):
        raise container.damaged("a line of it cannot be read")
    return values
