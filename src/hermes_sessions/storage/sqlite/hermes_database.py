"""Read a Hermes database of any version, and copy everything in it into a store.

Versions 1 to 22 and stores of this product are known; of later versions, tables and columns with
known names are understood. Unknown columns go to ``extra``, rows of unknown tables to
``foreign_rows``. Search indexes and counters are rebuilt; the report names everything that is
skipped. The source is only read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import apsw

from hermes_sessions.errors import BlobDamaged, ImportRefused, NotFound, StoreCorrupt
from hermes_sessions.model.ids import shortened_id
from hermes_sessions.model.lineage import documented_edge_kind
from hermes_sessions.storage import tables
from hermes_sessions.storage.codec import to_json
from hermes_sessions.storage.jsonl import Progress, Record
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories import topics
from hermes_sessions.storage.repositories.blobs import (
    MESSAGE,
    NewBlob,
    Reference,
    add_references,
    read_blob,
    store_blob,
)
from hermes_sessions.storage.repositories.export_import import export_records
from hermes_sessions.storage.repositories.usage import ROUTE_COLUMNS
from hermes_sessions.storage.sqlite.file_kind import (
    FileKind,
    FileType,
    emptied,
    had_store,
    identify_file,
)
from hermes_sessions.storage.sqlite.hermes_values import (
    FOREIGN_ROW,
    USAGE_NAMES,
    decoded,
    is_finite,
    jsonable,
    key_placeholder,
    key_value,
    message_record,
    object_in,
    plain_text,
    routing_row,
    row_key,
    time_or_default,
    typed,
    typed_row,
    usable_id,
    with_rejected_values,
)
from hermes_sessions.storage.sqlite.read_only_file import (
    has_wal_header,
    is_database,
    reading,
    target_for,
)
from hermes_sessions.storage.sqlite.row_scan import (
    DAMAGE,
    quoted,
    readable_cells,
    readable_rows,
    rows_of,
)
from hermes_sessions.storage.sqlite.transaction import ApswTransaction
from hermes_sessions.storage.sqlite.upgrade.layout import SEARCH_TABLES
from hermes_sessions.storage.sqlite.upgrade.topics import BINDINGS, MODES, usable_rows
from hermes_sessions.storage.sqlite.wal_files import require_intact_wal
from hermes_sessions.storage.tables import ALL_TABLES, BLOB_TABLES, ROUTING, USAGE, Table

if TYPE_CHECKING:
    from hermes_sessions.storage.sessiondb import SessionDB

__all__ = [
    "HermesDatabase",
    "import_database",
    "is_database",
    "require_importable",
    "target_for",
]

_SESSION_TIMES: Final = ("started_at", "ended_at")
#: Tables that are imported as they are, with the columns that exist here.
_OWN_COLUMNS: Final = {
    "schema_version": {"version"},
    "state_meta": {"key", "value"},
    USAGE.name: {*USAGE_NAMES, *(column.name for column in USAGE.columns)},
    ROUTING.name: {column.name for column in ROUTING.columns},
}
#: Columns that are recounted.
_COUNTED: Final = ("message_count", "tool_call_count")
_SESSION_TABLES: Final = frozenset(table.name for table in ALL_TABLES if table.carried == "session")
#: In a store of ours: tables that are imported, and those that are imported in a way of their own.
_IMPORTED: Final = tuple(table for table in ALL_TABLES if table.imported)
_OWN_WAY: Final = frozenset(
    ("state_meta", "foreign_rows", "topic_modes", "topics", *(table.name for table in BLOB_TABLES))
)
_COPIED_OF_OURS: Final = (
    _SESSION_TABLES | {table.name for table in _IMPORTED} | {"schema_version", "store_migrations"}
)
_NOT_COPIED_OF_OURS: Final = (
    frozenset(table.name for table in ALL_TABLES if table not in tables.SEARCH_TABLES)
    - _COPIED_OF_OURS
)
_INDEX: Final = "a search index, rebuilt here"
_COUNTED_AGAIN: Final = "recounted here"
_OF_SQLITE: Final = "SQLite's own"
_VIEW: Final = "a view, which has no rows of its own"
_UNREADABLE: Final = "a kind of table that cannot be read here"
_LOCKS: Final = "locks of programs that use that file"
_OF_THE_STORE: Final = "specific to that store; hermes sessiondb migrate moves a whole store"
_ROWS_PER_WRITE: Final = 500
_LISTED_DAMAGE: Final = 100


class HermesDatabase:
    """An open source; iterating it yields export records and may be repeated."""

    def __init__(
        self, connection: apsw.Connection, name: str, on_progress: Progress | None = None
    ) -> None:
        """Examine an open file (see `read_only_file.reading`).

        Raises:
            ImportRefused: not a Hermes database.
        """
        self._connection = connection
        self._on_progress = on_progress
        self._passed = 0
        self._file_kind: FileKind = identify_file(connection)
        #: What is not copied: table, column if it is only that, and reason.
        self.left_out: list[Record] = []
        #: Number of rows by table that are kept in ``foreign_rows``.
        self.kept: dict[str, int] = {}
        self._tables = self._list_tables()
        readable = {"sessions", "messages"} <= self._tables.keys()
        if self._file_kind.kind is FileType.OTHER or self._file_kind.is_new or not readable:
            raise ImportRefused(f"{name} contains no Hermes sessions; nothing was imported.")
        self.origin = f"{name}, schema version {self._file_kind.version}"
        #: What could not be read, for display.
        self.damage: list[str] = []
        self._damaged: set[str] = set()
        #: Notes about single sessions, by id.
        self.notes: dict[str, str] = {}

    @property
    def is_ours(self) -> bool:
        """Whether the source is a store of this program."""
        return self._file_kind.kind in (FileType.OURS, FileType.UNMARKED)

    @property
    def schema_version(self) -> int:
        """The version the source states."""
        return self._file_kind.version

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield an export record for every session, and for messages without a session."""
        total = self._count_sessions()
        records: Iterator[Mapping[str, Any]] = (
            export_records(ApswTransaction(self._connection))
            if self.is_ours
            else self._documented_records()
        )
        for done, record in enumerate(records, start=1):
            yield record
            if self._on_progress is not None:
                # An import reads everything twice: to check it, and to write it.
                self._on_progress(min(done, total) + self._passed * total, 2 * total)
        self._passed += 1

    def meta(self) -> Iterator[tuple[str, str | None]]:
        """Yield the named values of ``state_meta``."""
        for row in self._rows("state_meta", ("key", "value")):
            key, value = (plain_text(cell) for cell in row)
            if self.is_ours:
                key, value = decoded(key), decoded(value)
            if key is not None:
                yield shortened_id(key), value

    def other_rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield (origin, table, key, JSON) of rows for ``foreign_rows``."""
        if self.is_ours:
            for row in self._rows("foreign_rows", FOREIGN_ROW):
                origin, table, key, text = (str(decoded(cell)) for cell in row)
                yield origin, table, key, text
        for table, columns in self._tables.items():
            if table in (_COPIED_OF_OURS if self.is_ours else ("sessions", "messages")):
                continue
            known = _OWN_COLUMNS.get(table, set())
            unknown = [name for name in columns if name not in known]
            if known and not unknown and table not in (USAGE.name, ROUTING.name):
                continue
            self.kept[table] = 0
            for row in self._rows(table, columns):
                values = dict(zip(columns, row, strict=True))
                if (
                    known
                    and not any(values[name] for name in unknown)
                    and self._has_place(table, values)
                ):
                    continue
                self.kept[table] += 1
                key = self._key_of(table, values)
                yield self.origin, table, key, to_json(jsonable(values))
            if known and not self.kept[table]:
                del self.kept[table]

    def _has_place(self, table: str, values: Mapping[str, Any]) -> bool:
        """Whether a row of a table in _OWN_COLUMNS was copied: usage is copied with its session."""
        if table == ROUTING.name:
            return routing_row(values) is not None
        if table != USAGE.name:
            return True
        key = values.get("session_id")
        condition = f"WHERE id = {key_placeholder(key)}"
        return any(True for _ in self._rows("sessions", ("id",), condition, [key_value(key)]))

    def topic_modes(self) -> Iterator[Record]:
        """Yield the private Telegram chats that have topics."""
        yield from self._topic_rows(MODES, topics.MODE_COLUMNS, "topic_modes")

    def topics(self) -> Iterator[Record]:
        """Yield which session continues in which topic."""
        for row in self._topic_rows(BINDINGS, topics.COLUMNS, "topics"):
            session_id = usable_id(row["session_id"])
            if session_id is not None:
                yield row | {"session_id": session_id}

    def _topic_rows(self, theirs: str, columns: Sequence[str], ours: str) -> Iterator[Record]:
        if self.is_ours:
            for row in self._rows(ours, columns):
                yield dict(zip(columns, map(decoded, row), strict=True))
        elif set(columns) <= set(self._tables.get(theirs, ())):
            rows = self._rows(theirs, columns)
            yield from usable_rows(dict(zip(columns, row, strict=True)) for row in rows)

    def side_rows_of(self, table: Table) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table of a store of ours, or of the same table of Hermes."""
        if self.is_ours:
            there = self._tables.get(table.name, ())
            names = [column.name for column in table.copied if column.name in there]
            for row in self._rows(table.name, names):
                found = dict(zip(names, map(decoded, row), strict=True))
                # A column that a pending migration adds has its default.
                yield tuple(found.get(column.name, column.default) for column in table.copied)
        elif table is ROUTING:
            names = [column.name for column in table.columns]
            if set(names) <= set(self._tables.get(table.name, ())):
                for row in self._rows(table.name, names):
                    values = routing_row(dict(zip(names, row, strict=True)))
                    if values is not None:
                        yield values

    def blobs(self) -> Iterator[tuple[bytes, list[Reference]]]:
        """Yield the blobs that something other than a message needs: messages bring theirs."""
        if not self.is_ours:
            return
        names = ("digest", *Reference._fields)
        owners: dict[str, list[Reference]] = {}
        for digest, *reference in self._rows(
            "blob_references", names, "WHERE kind <> ?", [MESSAGE]
        ):
            owners.setdefault(str(digest), []).append(Reference(*map(decoded, reference)))
        for digest, references in owners.items():
            try:
                data = read_blob(ApswTransaction(self._connection), digest)
            except (BlobDamaged, NotFound, *DAMAGE) as error:
                self._report(f"blob {digest}: {error}")
            else:
                yield data, references

    # Sessions of the documented layouts

    def _documented_records(self) -> Iterator[Record]:
        columns = self._tables["sessions"]
        for rowid in self._session_rowids():
            try:
                rows = rows_of(self._connection, "sessions", columns, "WHERE rowid = ?", [rowid])
                found = [dict(zip(columns, row, strict=True)) for row in rows]
            except DAMAGE:
                cells = readable_cells(self._connection, "sessions", columns, rowid, self._report)
                found = [cells] if "id" in cells else []
            for raw in found:
                yield self._session(rowid, raw)
        yield from self._sessions_of_orphaned_messages()

    def _count_sessions(self) -> int:
        try:
            return int(self._connection.execute("SELECT COUNT(*) FROM sessions").get)
        except DAMAGE:
            return 0

    def _session_rowids(self) -> list[int]:
        try:
            sql = "SELECT rowid FROM sessions ORDER BY rowid"
            return [row[0] for row in self._connection.execute(sql)]
        except DAMAGE:
            rows = readable_rows(self._connection, "sessions", ("rowid",), "", (), self._report)
            return [row[0] for row in rows]

    def _session(self, rowid: int, raw: Mapping[str, Any]) -> Record:
        odd: dict[str, Any] = {}
        record = typed_row(raw, odd)
        key = raw["id"]
        record["id"] = self._session_id(key, rowid)
        record["title"] = record.get("title") or None
        record["source"] = record.get("source") or "unknown"
        record["messages"] = [] if key is None else self._messages(key)
        oldest = min((m["timestamp"] for m in record["messages"]), default=0.0)
        for name in _SESSION_TIMES:
            record[name] = time_or_default(
                name, raw.get(name), odd, None if name == "ended_at" else oldest
            )
        parent = raw.get("parent_session_id")
        record["parent_session_id"] = None if parent is None else usable_id(parent)
        record["edge_kind"] = None if parent is None else self._edge_kind(record, parent)
        usage = [] if key is None else self._usage(key)
        if usage:
            record["model_usage"] = usage
        return with_rejected_values(record, odd)

    def _session_id(self, key: Any, rowid: int) -> str:
        session_id = usable_id(key) or f"unknown-{rowid}"
        if session_id != plain_text(key):
            self.notes[session_id] = f"its id {plain_text(key)!r:.250} is invalid; it got a new one"
        return session_id

    def _edge_kind(self, record: Record, parent: Any) -> str | None:
        has_end = {"ended_at", "end_reason"} <= set(self._tables["sessions"])
        if not has_end:
            return None
        for end_reason, ended_at in self._rows(
            "sessions",
            ("end_reason", "ended_at"),
            f"WHERE id = {key_placeholder(parent)}",
            [key_value(parent)],
        ):
            return documented_edge_kind(
                config=object_in(record.get("model_config")),
                source=record["source"],
                started_at=record["started_at"],
                parent_end_reason=plain_text(end_reason),
                parent_ended_at=ended_at if is_finite(ended_at) else None,
                schema_version=self._file_kind.version,
            )
        return None

    def _sessions_of_orphaned_messages(self) -> Iterator[Record]:
        # Read from the index alone, so that a damaged table does not hide them.
        lost = self._rows(
            "messages",
            ("session_id",),
            "WHERE session_id NOT IN (SELECT id FROM sessions WHERE id IS NOT NULL) "
            "GROUP BY session_id",
        )
        for (key,) in list(lost):
            messages = self._messages(key)
            session_id = self._session_id(key, 0)
            self.notes[session_id] = "its messages had no session; one was created for them"
            yield {
                "id": session_id,
                "source": "unknown",
                "started_at": min(message["timestamp"] for message in messages),
                "edge_kind": None,
                "messages": messages,
            }

    def _messages(self, key: Any) -> list[Record]:
        columns = self._tables["messages"]
        condition, params = f"WHERE session_id = {key_placeholder(key)}", [key_value(key)]
        try:
            tail = f"{condition} ORDER BY id"
            rows = list(rows_of(self._connection, "messages", columns, tail, params))
        except DAMAGE:
            rows = readable_rows(
                self._connection, "messages", columns, condition, params, self._report
            )
        messages: list[Record] = []
        for row in rows:
            before = messages[-1]["timestamp"] if messages else 0.0
            messages.append(message_record(dict(zip(columns, row, strict=True)), before))
        return messages

    def _usage(self, key: Any) -> list[Record]:
        columns = self._tables.get("session_model_usage")
        if columns is None or "session_id" not in columns:
            return []
        usage = []
        for row in self._rows(
            "session_model_usage",
            columns,
            f"WHERE session_id = {key_placeholder(key)}",
            [key_value(key)],
        ):
            odd: dict[str, Any] = {}
            found = {
                USAGE_NAMES.get(name, name): typed(name, value, odd)
                for name, value in zip(columns, row, strict=True)
            }
            for name in ROUTE_COLUMNS:
                found[name] = plain_text(found.get(name)) or None
            usage.append(found)
        return usage

    # Tables

    def _list_tables(self) -> dict[str, list[str]]:
        """Return the columns of every table that contains data, names in lower case; record the
        others as skipped.
        """
        listed = self._connection.execute(
            "SELECT lower(name), type FROM pragma_table_list "
            "WHERE schema = 'main' AND name NOT IN ('sqlite_schema', 'sqlite_master') ORDER BY name"
        ).fetchall()
        tables = {}
        for name, kind in listed:
            if reason := self._reason_against(str(name), str(kind)):
                self.left_out.append({"table": name, "reason": reason})
                continue
            found = self._connection.execute(
                "SELECT lower(name) FROM pragma_table_xinfo(?) WHERE hidden <> 1", (name,)
            )
            tables[str(name)] = [str(row[0]) for row in found]
        self.left_out += [
            {"table": "sessions", "column": name, "reason": _COUNTED_AGAIN}
            for name in _COUNTED
            if not self.is_ours and name in tables.get("sessions", ())
        ]
        return tables

    def _reason_against(self, name: str, kind: str) -> str | None:
        """Return why a table is skipped, None for one that is copied."""
        if name.startswith("sqlite_") or kind == "view":
            return _VIEW if kind == "view" else _OF_SQLITE
        if kind == "shadow" or name in SEARCH_TABLES:
            return _INDEX
        if name == "compression_locks" and not self.is_ours:
            return _LOCKS
        if self.is_ours and (name.startswith("search_") or name in _NOT_COPIED_OF_OURS):
            return _INDEX if name.startswith("search_") else _OF_THE_STORE
        if kind == "virtual":
            try:
                self._connection.execute(f"SELECT 1 FROM {quoted(name)} LIMIT 1").fetchall()
            except apsw.Error:
                return _UNREADABLE
        return None

    def _key_of(self, table: str, values: Mapping[str, Any]) -> str:
        key_columns = self._connection.execute(
            "SELECT lower(name) FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)
        )
        return row_key([str(row[0]) for row in key_columns], values)

    def _rows(
        self, table: str, columns: Sequence[str], tail: str = "", params: Sequence[Any] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows of a table that may not exist; damage is reported."""
        if table not in self._tables:
            return
        try:
            yield from rows_of(self._connection, table, columns, tail, params)
        except DAMAGE as error:
            self._report(f"{table}: not all rows can be read: {error}")

    def _report(self, problem: str) -> None:
        if problem in self._damaged:
            return
        self._damaged.add(problem)
        unlisted = len(self._damaged) - _LISTED_DAMAGE
        if unlisted <= 0:
            self.damage.append(problem)
        else:
            self.damage[_LISTED_DAMAGE:] = [f"… and {unlisted} more"]


# Importing


def require_importable(path: Path) -> None:
    """Refuse a file that `import_database` would refuse, before anything is created for it.

    A file that is not a database is not examined, unless it is an emptied database. Raises like
    `import_database`.
    """
    require_intact_wal(path, _repair(path))
    if path.stat().st_size == 0 and had_store(path):
        raise emptied(path)
    if is_database(path):
        with _opened(path):
            pass


@contextmanager
def _opened(path: Path, on_progress: Progress | None = None) -> Iterator[HermesDatabase]:
    require_intact_wal(path, _repair(path))
    with reading(path) as connection:
        if has_wal_header(path) and identify_file(connection).kind is FileType.EMPTY:
            # Its tables were in the log, if it ever had some.
            raise StoreCorrupt(
                f"{path}: it has no tables, and its write-ahead log is empty or missing; all data "
                f"is missing, and nothing was imported. Put the log beside it as {path.name}-wal, "
                f"or use a backup: hermes backup list"
            )
        yield HermesDatabase(connection, path.name, on_progress)


def _repair(path: Path) -> str:
    return f"hermes repair {quote(str(path))}"


def import_database(db: SessionDB, path: str | Path, on_progress: Progress | None = None) -> Record:
    """Copy everything in a Hermes database into *db* and return a report.

    The source is read as of now, even while another program uses it, and is never changed. Sessions
    are merged like in `SessionDB.import_sessions`; one that cannot be stored is skipped and
    reported. Existing values and rows stay. Copying again adds what is new.

    The report has the keys of `SessionDB.import_sessions`, and ``schema_version``, ``damage``
    (what could not be read), ``meta``, ``foreign_rows``, ``routing`` and ``topics`` (how many were
    added),
    ``kept`` (unknown tables, and how many of their rows are in ``foreign_rows``) and ``left_out``
    (what is not copied: ``table``, ``column`` if it is only that, ``reason``).

    Raises:
        ImportRefused: the file is not a Hermes database.
        StoreCorrupt: its write-ahead log is damaged or missing.
        StoreError: the source cannot be read, or *db* cannot be written.
    """
    with _opened(Path(path), on_progress) as source:
        report: Record = {**db.import_sessions(source, leave_out_invalid=True)}
        report["schema_version"] = source.schema_version
        report["meta"] = _add_rows(db, "state_meta", ("key", "value"), ("key",), source.meta())
        report["foreign_rows"] = _add_rows(
            db,
            "foreign_rows",
            FOREIGN_ROW,
            ("table_name", "row_key"),
            source.other_rows(),
        )
        _add_blobs(db, source)
        for table in _IMPORTED:
            if table.name not in _OWN_WAY:
                columns = [column.name for column in table.copied]
                rows = source.side_rows_of(table)
                added = _add_rows(db, table.name, columns, table.row_key, rows)
                if table is ROUTING:
                    report["routing"] = added
        report["topics"] = _add_topics(db, source)
        report["kept"], report["left_out"] = source.kept, source.left_out
        report["damage"] = source.damage
        report["notes"] += [
            {"id": session_id, "note": note} for session_id, note in source.notes.items()
        ]
        report["ok"] = report["ok"] and not source.damage
    return report


def _add_rows(
    db: SessionDB,
    table: str,
    columns: Sequence[str],
    key: Sequence[str],
    rows: Iterator[tuple[Any, ...]],
) -> int:
    """Insert missing rows in short transactions; return how many were added."""
    insert = db.provider.dialect.insert_if_absent(table, columns, key)
    added = 0
    while batch := list(islice(rows, _ROWS_PER_WRITE)):

        def work(tx: WriteTransaction, batch: list[tuple[Any, ...]] = batch) -> int:
            return sum(tx.run(insert, row) for row in batch)

        added += db.provider.write(work)
    return added


def _add_blobs(db: SessionDB, source: HermesDatabase) -> None:
    for data, references in source.blobs():
        blob = NewBlob(data)

        def work(
            tx: WriteTransaction, blob: NewBlob = blob, references: list[Reference] = references
        ) -> None:
            store_blob(tx, db.store, blob)
            add_references(tx, db.store, [(reference, blob.digest) for reference in references])

        db.provider.write(work)


def _add_topics(db: SessionDB, source: HermesDatabase) -> int:
    """Copy the topics of Telegram chats; return how many bindings were added."""
    modes, bindings = source.topic_modes(), source.topics()
    while batch := list(islice(modes, _ROWS_PER_WRITE)):
        db.provider.write(lambda tx, batch=batch: topics.add_modes(tx, batch))  # type: ignore[misc]
    added = 0
    while batch := list(islice(bindings, _ROWS_PER_WRITE)):
        unbound = db.provider.write(lambda tx, batch=batch: topics.add_bindings(tx, batch))  # type: ignore[misc]
        added += unbound.added
        for row in unbound.refused:
            source.notes[row["session_id"]] = (
                f"its topic {row['thread_id']} of chat {row['chat_id']} was not imported: the "
                f"topic or the session has another binding here, or the session is missing"
            )
    return added
