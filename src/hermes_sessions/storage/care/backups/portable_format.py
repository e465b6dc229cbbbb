"""The portable form: rows as lines of JSON, the same from every database and for every database.

A line is a table's name and the values of a row, in the order of the columns that the manifest
lists. The rows of a session stand together, and after them a line with its checksum; then come the
other tables. Text is as in the columns of a database: what UTF-8 cannot say is escaped by the
store's own codec.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from hermes_sessions.errors import BackupRefused
from hermes_sessions.storage.care.backups.container import Container, SectionWriter
from hermes_sessions.storage.codec import decode_text, encode_text
from hermes_sessions.storage.provider import ReadTransaction, Row
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
from hermes_sessions.storage.transfer.checksums import Checksum, SessionChecksum, typed_rows
from hermes_sessions.storage.transfer.reader import Piece, columns, ids_page, read_pieces

#: Every declared table, so that a new one is carried by itself.
DECLARED: Final = {table.name: table for table in (*ALL_TABLES, *SERVER_TABLES)}
#: Which tables a portable backup leaves out, and why.
EXCLUDED_TABLES: Final = {table.name: table.local for table in DECLARED.values() if table.local}
#: What belongs to one session, in the order of its checksum.
OF_A_SESSION: Final = (SESSIONS, USAGE, REWINDS, MESSAGES)
#: Everything else that is carried.
BESIDE: Final = tuple(
    table
    for table in DECLARED.values()
    if table not in OF_A_SESSION and table.name not in EXCLUDED_TABLES
)


INCLUDED_TABLES: Final = (*OF_A_SESSION, *BESIDE)


_PRESENT: Final = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgresql": "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = CURRENT_SCHEMA()",
    "mysql": "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
}


def names(table: Table) -> list[str]:
    """Return the names of the columns that are carried."""
    return [column.name for column in table.copied]


def present(tx: ReadTransaction, dialect: str) -> tuple[Table, ...]:
    """Return the carried tables that a store has: one that waits for a step has fewer."""
    if dialect not in _PRESENT:
        return INCLUDED_TABLES
    there = {row[0] for row in tx.all(_PRESENT[dialect])}
    return tuple(table for table in INCLUDED_TABLES if table.name in there)


def count(tx: ReadTransaction, table: Table) -> int:
    """Return how many rows a table has."""
    row = tx.one(f"SELECT COUNT(*) FROM {table.name}")
    return int(row[0]) if row else 0


#: Begins the line with a session's checksum, which is no name of a table.
_SUM: Final = "="
_dump: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
#: Rows of a table that are made ready at a time.
_AT_ONCE: Final = 500
_LARGEST: Final = 2**63

#: Called with how many messages were read.
Advance = Callable[[int], None]


class SessionSum(NamedTuple):
    """What was read of one session: in full, if the checksum is right."""

    session_id: str
    messages: int
    #: None for one that holds values which have no form in other databases.
    checksum: Checksum | None


class Written(NamedTuple):
    """What went into a backup."""

    counts: dict[str, int]
    #: Rows that belong to no session, so that no other database can hold them.
    left_out: dict[str, int]
    columns: dict[str, list[str]]


# ── writing ───────────────────────────────────────────────────────────────────────────────────


def write_rows(
    tx: ReadTransaction,
    dialect: str,
    rows: SectionWriter,
    note: Callable[[SessionSum], None],
    advance: Advance = lambda _: None,
) -> Written:
    """Write everything that *tx* sees, which must be one state of the store.

    Raises:
        TransferRefused: a value has no form in other databases; the message says where it is.
    """
    there = present(tx, dialect)
    written = Written(
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
            found = SessionSum(piece.session_id, messages, piece.checksum)
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
    values = [encode_text(value) if type(value) is str else value for value in row]
    return _dump([table, *values]).encode("utf-8") + b"\n"


def sum_line(found: SessionSum) -> bytes:
    """Return the line about one session."""
    checksum = str(found.checksum) if found.checksum is not None else None
    return (
        _dump([_SUM, encode_text(found.session_id), found.messages, checksum]).encode("utf-8")
        + b"\n"
    )


# ── reading ───────────────────────────────────────────────────────────────────────────────────


def read_sums(container: Container, section: str = "sessions") -> Iterator[SessionSum]:
    """Yield what is known of every session.

    Raises:
        BackupDamaged: a line is not what was written.
    """
    for line in container.lines(section):
        values = _values(container, line)
        if values[0] != _SUM:
            raise container.damaged(f"{section!r} has a line about something else")
        yield _sum_of(container, values)


def _sum_of(container: Container, values: list[Any]) -> SessionSum:
    match values:
        case [_, str(session_id), int(messages), None]:
            return SessionSum(decode_text(session_id), messages, None)
        case [_, str(session_id), int(messages), str(text)] if checksum := Checksum.read(text):
            return SessionSum(decode_text(session_id), messages, checksum)
    raise container.damaged("what it says of a session cannot be read")


def read_rows(container: Container) -> Iterator[tuple[Table, Row] | SessionSum]:
    """Yield the rows, each checked against its table, and after those of a session its checksum,
    compared with what was read.

    Raises:
        BackupDamaged: a row is none, or a checksum is another.
    """
    shapes = _shapes(container)
    summing: SessionChecksum | None = None
    session_id, messages = "", 0
    for line in container.lines("rows"):
        values = _values(container, line)
        if values[0] == _SUM:
            found = _sum_of(container, values)
            if summing is None or found != SessionSum(session_id, messages, summing.result()):
                raise container.damaged(f"session {found.session_id!r:.100} has another checksum")
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


class _Shape:
    """How the rows of one table are written."""

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
            raise container.damaged(f"a row of {self.table.name} has another number of values")
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
        else:
            is_fit = type(value) is str
            value = decode_text(value) if is_fit else value
        if not is_fit:
            raise container.damaged(
                f"{self.table.name}.{column.name} holds {value!r:.60}, which is not of its kind"
            )
        return value


def _shapes(container: Container) -> dict[str, _Shape]:
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
        shapes[name] = _Shape(table, written)
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
