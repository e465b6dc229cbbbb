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
from hermes_sessions.storage.session_copy.checksums import Checksum, SessionChecksum
from hermes_sessions.storage.session_copy.reader import (
    PIECE_CHARACTERS,
    PIECE_ROWS,
    Piece,
    SideRows,
    characters_in,
    count_rows,
    ids_page,
    read_pieces,
    read_side_rows,
)
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
    return list(table.copied_names)


def present(tx: ReadTransaction, tables_query: str | None) -> tuple[Table, ...]:
    """Return the included tables that a store has; with pending migrations it has fewer.

    *tables_query* is that of its `Dialect`.
    """
    if tables_query is None:
        return INCLUDED_TABLES
    there = {row[0] for row in tx.all(tables_query)}
    return tuple(table for table in INCLUDED_TABLES if table.name in there)


def counts_of(tx: ReadTransaction, tables_query: str | None) -> dict[str, int]:
    """Return the number of rows in each of these tables."""
    return {table.name: count_rows(tx, table.name) for table in present(tx, tables_query)}


#: Starts the line with a session's checksum; not a table name.
_SUM: Final = "="
_dump: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
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


def read_store(tx: ReadTransaction, tables: Iterable[Table]) -> Iterator[Piece | SideRows]:
    """Yield everything in these tables that *tx* sees, which must be one snapshot of the store.

    Raises:
        TransferRefused: a value has no portable form; the message says where it is.
    """
    after: str | None = None
    while page := ids_page(tx, after, None):
        yield from read_pieces(tx, page)
        after = page[-1]
    for table in tables:
        if table not in OF_A_SESSION:
            yield from read_side_rows(tx, table)


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
        {table.name: 0 for table in there}, {}, {table.name: names(table) for table in there}
    )
    messages = 0
    for part in read_store(tx, there):
        for table, some in part.rows():
            for row in some:
                rows.write_line(_line(table.name, row))
            written.counts[table.name] += len(some)
        if isinstance(part, Piece):
            messages += len(part.messages)
            advance(len(part.messages))
            if part.checksum is not None:
                found = BackedUpSession(part.session_id, messages, part.checksum)
                rows.write_line(sum_line(found))
                note(found)
                messages = 0
    for table in OF_A_SESSION:
        left = count_rows(tx, table.name) - written.counts[table.name]
        if left:
            written.left_out[table.name] = left
    return written


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


def read_rows(container: Container) -> Iterator[Piece | SideRows]:
    """Yield the rows, each checked against its table, and each session with its verified checksum.

    Raises:
        BackupDamaged: a row is invalid, or a checksum differs.
    """
    session: _SessionReader | None = None
    side: SideRows | None = None
    for found in _checked_lines(container):
        if isinstance(found, BackedUpSession):
            if session is None or found != session.result():
                raise container.damaged(f"session {found.session_id!r:.100} has a wrong checksum")
            yield session.piece(found.checksum)
            session = None
            continue
        form, row = found
        if problem := _misplaced(session, form, row):
            raise container.damaged(problem)
        if form.table is SESSIONS:
            session = _SessionReader(row)
        elif session is not None:
            if session.is_full:
                yield session.piece(None)
            session.add(form.table, row)
        else:
            if side is not None and (side.table is not form.table or side.is_full):
                yield side
                side = None
            side = (side or SideRows(form.table, [])).with_row(row)
    if session is not None:
        raise container.damaged(f"session {session.id!r:.100} has no checksum")
    if side is not None:
        yield side


def _checked_lines(container: Container) -> Iterator[tuple[_RowFormat, Row] | BackedUpSession]:
    formats = _row_formats(container)
    for line in container.lines("rows"):
        values = _values(container, line)
        if values[0] == _SUM:
            yield _sum_of(container, values)
            continue
        form = formats.get(values[0])
        if form is None:
            raise container.damaged(f"it has rows of an unknown table {values[0]!r:.60}")
        yield form, form.row_of(container, values)


def _misplaced(session: _SessionReader | None, form: _RowFormat, row: Row) -> str | None:
    """Return what is wrong with the place of a row: a session's are together."""
    if form.table is SESSIONS:
        return f"session {session.id!r:.100} has no checksum" if session is not None else None
    is_of_a_session = form.table in OF_A_SESSION
    if (session is not None) != is_of_a_session or (
        session is not None and row[form.session] != session.id
    ):
        return f"a row of {form.table.name} is out of place"
    return None


class _SessionReader:
    """Collects the rows of one session into pieces."""

    def __init__(self, session: Row) -> None:
        self.id: str = session[0]
        self._summing = SessionChecksum()
        self._summing.add(SESSIONS, [session])
        self._messages = 0
        self._session: Row | None = session
        self._rows: dict[str, list[Row]] = {table.name: [] for table in OF_A_SESSION}
        self._characters = 0

    @property
    def is_full(self) -> bool:
        """Whether the next row belongs to another piece."""
        return len(self._rows[MESSAGES.name]) >= PIECE_ROWS or self._characters > PIECE_CHARACTERS

    def add(self, table: Table, row: Row) -> None:
        """Add a row that is not the session's own."""
        self._summing.add(table, [row])
        self._messages += table is MESSAGES
        self._rows[table.name].append(row)
        self._characters += characters_in(row)

    def piece(self, checksum: Checksum | None) -> Piece:
        """Return what was added since the last piece."""
        rows, self._rows = self._rows, {table.name: [] for table in OF_A_SESSION}
        session, self._session = self._session, None
        characters, self._characters = self._characters, 0
        return Piece(
            self.id,
            rows[MESSAGES.name],
            session,
            rows[USAGE.name],
            rows[REWINDS.name],
            checksum,
            characters,
        )

    def result(self) -> BackedUpSession:
        """Return the checksum of all rows."""
        return BackedUpSession(self.id, self._messages, self._summing.result())


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
