"""Builds a new store from the rows recovered from a damaged one.

Rows are inserted as they are. Violations of constraints are resolved where possible, and reported:
two messages with one position, a title of two sessions, a missing session whose messages exist.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import apsw

from hermes_sessions.storage.codec import encode_text
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.attachments import require_readers
from hermes_sessions.storage.repositories.lineage import Tie, join_families
from hermes_sessions.storage.repositories.messages import refresh_summary
from hermes_sessions.storage.repositories.stale_sessions import note_all
from hermes_sessions.storage.sqlite.hermes_values import decode_lossless
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from hermes_sessions.storage.sqlite.repair.row_file import RowFile
from hermes_sessions.storage.sqlite.row_scan import has_zeroed_part, quoted
from hermes_sessions.storage.tables import (
    ALL_TABLES,
    MESSAGES,
    SEARCH_TABLES,
    SESSIONS,
    STALE_TABLES,
    Column,
    Kind,
    Table,
)

#: All but what is derived; sessions and messages first, because the others refer to them.
_TABLES: Final = (
    SESSIONS,
    MESSAGES,
    *sorted(
        set(ALL_TABLES) - {SESSIONS, MESSAGES, *SEARCH_TABLES, *STALE_TABLES},
        key=lambda table: table.name,
    ),
)
_DEFAULT_VALUES: Final[dict[Kind, Any]] = {
    "name": "",
    "text": "",
    "real": 0.0,
    "serial": 0,
    "integer": 0,
    "bytes": b"",
}
_TIES: Final = "SELECT id, parent_session_id, conversation_id, started_at FROM sessions"
_LOST_SOURCE: Final = "unknown"


class RebuildResult(NamedTuple):
    """The result of a rebuild."""

    #: By table: how many rows were read, and how many are in the new file.
    read: dict[str, int]
    written: dict[str, int]
    #: By table: identical rows.
    duplicates: dict[str, int]
    #: Sessions created for messages whose session was lost, with the number of messages.
    adopted: dict[str, int]
    #: Sessions with fewer messages than their counter says: id to (counted, found).
    incomplete: dict[str, tuple[int, int]]
    #: Changes that were needed to store rows, for display.
    notes: list[str]
    #: By table: rows with a partly damaged text.
    damaged: dict[str, int]
    #: Tables of the new file for which nothing was read.
    absent: list[str]


def rebuild(file: RowFile, provider: SQLiteSessionDBProvider) -> RebuildResult:
    """Write the rows of *file* into a new, empty store, and compute all derived values."""
    rebuilt = RebuildResult({}, {}, {}, {}, {}, [], {}, [])
    provider.write_on_connection(lambda connection: _copy_all(file, connection, rebuilt))
    provider.write(_continue_ordinals)
    provider.write(lambda tx: _require_readers(tx, provider))
    provider.write(lambda tx: _settle_lineage(tx, rebuilt))
    provider.write(lambda tx: _settle_sessions(tx, rebuilt))
    return rebuilt


def _copy_all(file: RowFile, connection: apsw.Connection, rebuilt: RebuildResult) -> None:
    # The order in a damaged file is random; dangling references are resolved afterwards.
    connection.pragma("defer_foreign_keys", 1)
    found = {name.lower(): name for name in file.tables()}
    for table in _TABLES:
        if table.name in found:
            _copy(file, found[table.name], connection, table, rebuilt)
        else:
            rebuilt.absent.append(table.name)
    _add_missing_sessions(connection, rebuilt)
    _repair_ordinals(connection, rebuilt)
    _drop_orphaned_rows(connection, rebuilt)
    _continue_ids(file, connection)


class _TableCopy:
    """The transfer of one table's rows into the new file."""

    def __init__(
        self, connection: apsw.Connection, declared: Table, present: Collection[str]
    ) -> None:
        self._connection = connection
        self._table = table = declared.name
        self._key = declared.key
        self.columns = [c for c in declared.columns if c.name in present and not c.generated]
        self._place = {column.name: number for number, column in enumerate(self.columns)}
        names = ", ".join(quoted(column.name) for column in self.columns)
        marks = ", ".join("?" * len(self.columns))
        self._sql = f"INSERT INTO {table} ({names}) VALUES ({marks})"
        same = " AND ".join(f"{quoted(column.name)} IS ?" for column in self.columns)
        self._same = f"SELECT 1 FROM {table} WHERE {same} LIMIT 1"
        #: Rows that conflict with another one.
        self._waiting: list[list[Any]] = []
        self.read = self.written = self.duplicates = self.damaged = 0
        self.notes: list[str] = []

    def take(self, raw: Sequence[Any]) -> None:
        """Write a row as it is, or defer it."""
        self.read += 1
        row = [
            _fitting(column, value, is_key=column.name in self._key)
            for column, value in zip(self.columns, raw, strict=True)
        ]
        if self._table == "messages" and row[self._place.get("ordinal", 0)] is None:
            self.notes.append(f"messages {row[0]}: a part of it is lost; it was moved to the end")
        if any(map(_is_damaged, self.columns, raw)):
            self.damaged += 1
            self.notes.append(f"{self._table} {row[0]}: a part of a text in it is damaged")
        if not self._write(row):
            self._waiting.append(row)

    def finish(self) -> None:
        """Write the deferred rows with as few changes as possible."""
        for row in self._waiting:
            if self._connection.execute(self._same, row).fetchone() is not None:
                self.duplicates += 1
                continue
            name = f"{self._table} {row[0]}"
            for column, change, note in _CONFLICT_RESOLUTIONS.get(self._table, ()):
                if column not in self._place:
                    continue
                row[self._place[column]] = change and self._next_place(row)
                if self._write(row):
                    self.notes.append(f"{name}: {note}")
                    break
            else:
                self.notes.append(f"{name}: another row has its key; it was skipped")

    def _write(self, row: Sequence[Any]) -> bool:
        try:
            self._connection.execute(self._sql, row)
        except apsw.ConstraintError:
            return False
        self.written += 1
        return True

    def _next_place(self, row: Sequence[Any]) -> int:
        found = self._connection.execute(
            "SELECT COALESCE(MAX(ordinal), 0) + 1 FROM messages WHERE session_id = ?",
            (row[self._place["session_id"]],),
        ).get
        return int(found)


#: The columns given up, one after the other, in a conflict, and whether for a new position.
_CONFLICT_RESOLUTIONS: Final = {
    "sessions": (("title", False, "another session has its title; the title was removed"),),
    "messages": (
        ("external_id", False, "another message has its external id; the id was removed"),
        ("ordinal", True, "another message has its position; it was moved to the end"),
        ("id", False, "another message has its id; it got a new one, at the end"),
    ),
}


def _copy(
    file: RowFile, name: str, connection: apsw.Connection, table: Table, rebuilt: RebuildResult
) -> None:
    present = {column.lower(): column for column in file.columns(name)}
    copying = _TableCopy(connection, table, present)
    for raw in file.rows(name, [present[column.name] for column in copying.columns]):
        copying.take(raw)
    copying.finish()
    rebuilt.read[table.name] = copying.read
    rebuilt.written[table.name] = copying.written
    if copying.duplicates:
        rebuilt.duplicates[table.name] = copying.duplicates
    if copying.damaged:
        rebuilt.damaged[table.name] = copying.damaged
    rebuilt.notes.extend(copying.notes)


def _is_damaged(column: Column, value: Any) -> bool:
    """Tell whether a text cannot have been written by us."""
    is_text = column.kind in ("name", "text")
    return is_text and (isinstance(value, bytes) or has_zeroed_part(value))


def _fitting(column: Column, value: Any, *, is_key: bool) -> Any:
    """Return a value that the column accepts."""
    stand_in = None
    if column.required and not is_key:
        stand_in = _DEFAULT_VALUES[column.kind] if column.default is None else column.default
    if value is None:
        return stand_in
    if column.kind == "bytes":
        return value if isinstance(value, bytes) else stand_in
    if column.kind not in ("name", "text"):
        return value if isinstance(value, (int, float)) else stand_in
    if isinstance(value, bytes):
        return encode_text(decode_lossless(value))
    if has_zeroed_part(value):
        return value.replace("\0", encode_text("\0"))
    return value if isinstance(value, str) else str(value)


def _add_missing_sessions(connection: apsw.Connection, rebuilt: RebuildResult) -> None:
    lost = connection.execute(
        "SELECT session_id, COUNT(*), MIN(timestamp), MAX(ordinal) FROM messages "
        "WHERE session_id NOT IN (SELECT id FROM sessions) GROUP BY session_id"
    ).fetchall()
    session_id: Any
    count: Any
    began: Any
    last: Any
    for session_id, count, began, last in lost:
        rebuilt.adopted[str(session_id)] = int(count)
        connection.execute(
            "INSERT INTO sessions (id, source, started_at, next_ordinal) VALUES (?, ?, ?, ?)",
            (session_id, _LOST_SOURCE, began or 0.0, (last or 0) + 1),
        )


def _repair_ordinals(connection: apsw.Connection, rebuilt: RebuildResult) -> None:
    """Move messages with an impossible ordinal after the previous message.

    Damage can change a row without making it unreadable.
    """
    odd = connection.execute(
        "SELECT m.id, m.session_id, m.ordinal FROM messages m "
        "JOIN sessions s ON s.id = m.session_id "
        "WHERE m.ordinal < 1 OR m.ordinal >= s.next_ordinal ORDER BY m.id"
    ).fetchall()
    for number, session_id, ordinal in odd:
        before = connection.execute(
            "SELECT ordinal FROM messages WHERE session_id = ? AND id < ? AND ordinal > 0 "
            "ORDER BY id DESC LIMIT 1",
            (session_id, number),
        ).fetchone()
        place = 1 if before is None else int(str(before[0])) + 1
        if place == ordinal:
            continue
        taken = "SELECT 1 FROM messages WHERE session_id = ? AND ordinal = ?"
        if connection.execute(taken, (session_id, place)).fetchone() is not None:
            last = "SELECT MAX(ordinal) + 1 FROM messages WHERE session_id = ?"
            place = int(connection.execute(last, (session_id,)).get)
        connection.execute("UPDATE messages SET ordinal = ? WHERE id = ?", (place, number))
        rebuilt.notes.append(
            f"messages {number}: its position was damaged, and a part of it may be; it is at "
            f"{place} of {session_id}"
        )


def _drop_orphaned_rows(connection: apsw.Connection, rebuilt: RebuildResult) -> None:
    for table in ("rewinds", "session_model_usage"):
        connection.execute(f"DELETE FROM {table} WHERE session_id NOT IN (SELECT id FROM sessions)")
        if gone := connection.changes():
            rebuilt.written[table] -= gone
            rebuilt.notes.append(f"{table}: {gone} rows of lost sessions were skipped")
    connection.execute(
        "UPDATE sessions SET parent_session_id = NULL, edge_kind = NULL "
        "WHERE parent_session_id IS NOT NULL AND parent_session_id NOT IN (SELECT id FROM sessions)"
    )
    if cut := connection.changes():
        rebuilt.notes.append(f"sessions: {cut} had a lost parent; they have no parent now")
    # No process holds a lease in a store that none has open.
    connection.execute("UPDATE sessions SET fence = NULL WHERE fence IS NOT NULL")
    connection.execute(
        "UPDATE leases SET holder = NULL, process_id = NULL, taken_at = NULL, expires_at = NULL"
    )


def _continue_ids(file: RowFile, connection: apsw.Connection) -> None:
    """Never reuse the id of a lost message."""
    if not file.columns("hermes_sequence"):
        return
    for name, number in file.rows("hermes_sequence", ("name", "seq")):
        if isinstance(number, int):
            connection.execute(
                "UPDATE sqlite_sequence SET seq = MAX(seq, ?) WHERE name = ?", (number, name)
            )


def _continue_ordinals(tx: WriteTransaction) -> None:
    """Continue the ordinals after the last message of every session."""
    tx.run(
        "UPDATE sessions SET next_ordinal = MAX(next_ordinal, COALESCE("
        "(SELECT MAX(m.ordinal) + 1 FROM messages m WHERE m.session_id = sessions.id), 1))"
    )


def _require_readers(tx: WriteTransaction, provider: SQLiteSessionDBProvider) -> None:
    if tx.one("SELECT 1 FROM messages WHERE attachments IS NOT NULL LIMIT 1") is not None:
        require_readers(tx, provider)


def _settle_lineage(tx: WriteTransaction, rebuilt: RebuildResult) -> None:
    """Compute conversations from the lineage; edge kinds stay as they were."""
    ties = {session_id: Tie(*tie) for session_id, *tie in tx.all(_TIES)}
    for cut in join_families(tx, ties):
        rebuilt.notes.append(f"sessions {cut}: was its own ancestor; it is a root now")
    note_all(tx)


def _settle_sessions(tx: WriteTransaction, rebuilt: RebuildResult) -> None:
    """Recount, and compare with the stored counters."""
    for session_id, counted in tx.all("SELECT id, message_count FROM sessions"):
        refresh_summary(tx, session_id)
        row = tx.one("SELECT message_count FROM sessions WHERE id = ?", (session_id,))
        found = int(row[0]) if row else 0
        if (counted or 0) > found:
            rebuilt.incomplete[session_id] = (int(counted), found)
