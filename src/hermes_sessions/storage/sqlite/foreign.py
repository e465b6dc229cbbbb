"""Reading a Hermes database of any version, and copying everything in it into a store.

Versions 1 to 22 are known, and stores of ours; of later versions what bears a known name is
understood. Columns this store does not have go to ``extra``, rows of tables it does not have to
``foreign_rows``, search indexes are left out because they are derived. The source is only read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import apsw

from hermes_sessions.errors import ImportRefused, StoreCorrupt
from hermes_sessions.model.ids import MAX_ID_LENGTH, stored_length
from hermes_sessions.model.legacy import documented_edge_kind
from hermes_sessions.storage.codec import to_json
from hermes_sessions.storage.jsonl import Progress, Record
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.exchange import export_records
from hermes_sessions.storage.repositories.usage import ROUTE_COLUMNS
from hermes_sessions.storage.sqlite.emptied import emptied, was_written
from hermes_sessions.storage.sqlite.foreign_values import (
    bounded,
    decoded,
    is_finite,
    jsonable,
    key_mark,
    key_value,
    message_record,
    object_in,
    plain_text,
    time_or,
    typed,
    typed_row,
    usable_id,
    with_odd,
)
from hermes_sessions.storage.sqlite.nature import Kind, Nature, nature_of
from hermes_sessions.storage.sqlite.salvage.rows import DAMAGE, cells_left, rows_left, rows_of
from hermes_sessions.storage.sqlite.source import (
    has_write_ahead_header,
    is_database,
    reading,
    target_for,
)
from hermes_sessions.storage.sqlite.transaction import ApswTransaction
from hermes_sessions.storage.sqlite.whole_log import require_whole_log

if TYPE_CHECKING:
    from hermes_sessions.storage.sessiondb import SessionDB

__all__ = [
    "HermesDatabase",
    "import_database",
    "is_database",
    "require_importable",
    "target_for",
]

#: Tables that are taken over as what they are, or that say nothing about sessions.
_OWN_TABLES: Final = frozenset(
    "sessions messages state_meta schema_version session_model_usage".split()
)
_SESSION_TIMES: Final = ("started_at", "ended_at")
_USAGE_NAMES: Final = {"first_seen": "first_at", "last_seen": "last_at"}
_FOREIGN_ROW: Final = ("origin", "table_name", "row_key", "row")
_ROWS_PER_WRITE: Final = 500
_LISTED_DAMAGE: Final = 100


class HermesDatabase:
    """An open source; iterating it yields export records, as often as one likes."""

    def __init__(
        self, connection: apsw.Connection, name: str, on_progress: Progress | None = None
    ) -> None:
        """Look at an open file (see `source.reading`).

        Raises:
            ImportRefused: it is not a database of Hermes.
        """
        self._connection = connection
        self._on_progress = on_progress
        self._passed = 0
        self._nature: Nature = nature_of(connection)
        self._tables = self._list_tables()
        readable = {"sessions", "messages"} <= self._tables.keys()
        if self._nature.kind in (Kind.OTHER, Kind.EMPTY) or not readable:
            raise ImportRefused(f"{name} holds no Hermes sessions; nothing was imported.")
        self.origin = f"{name}, schema version {self._nature.version}"
        #: What could not be read, for people.
        self.damage: list[str] = []
        self._damaged: set[str] = set()
        #: What people should know about single sessions, by their id.
        self.notes: dict[str, str] = {}

    @property
    def is_ours(self) -> bool:
        """Whether the source is a store of this program."""
        return self._nature.kind is Kind.OURS

    @property
    def schema_version(self) -> int:
        """The version the source states."""
        return self._nature.version

    def __iter__(self) -> Iterator[Record]:
        """Yield an export record for every session, and for messages whose session is gone."""
        total = self._count_sessions()
        records = (
            export_records(ApswTransaction(self._connection))
            if self.is_ours
            else self._documented_records()
        )
        for done, record in enumerate(records, start=1):
            yield record
            if self._on_progress is not None:
                # An import goes through everything twice: to check it, and to write it.
                self._on_progress(min(done, total) + self._passed * total, 2 * total)
        self._passed += 1

    def meta(self) -> Iterator[tuple[str, str | None]]:
        """Yield the small named values."""
        for row in self._rows("state_meta", ("key", "value")):
            key, value = (plain_text(cell) for cell in row)
            if self.is_ours:
                key, value = decoded(key), decoded(value)
            if key is not None:
                yield bounded(key), value

    def other_rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield (origin, table, key, JSON) of rows that have no place of their own here."""
        if self.is_ours:
            for row in self._rows("foreign_rows", _FOREIGN_ROW):
                origin, table, key, text = (str(decoded(cell)) for cell in row)
                yield origin, table, key, text
            return
        for table, columns in self._tables.items():
            if table in _OWN_TABLES and table != "session_model_usage":
                continue
            for row in self._rows(table, columns):
                values = dict(zip(columns, row, strict=True))
                # Usage has a table here, too, which lacks these two columns.
                if table == "session_model_usage" and not (
                    values.get("cost_status") or values.get("cost_source")
                ):
                    continue
                key = self._key_of(table, values)
                yield self.origin, table, key, to_json(jsonable(values))

    # ── sessions of the documented layouts ────────────────────────────────────────────────────

    def _documented_records(self) -> Iterator[Record]:
        columns = self._tables["sessions"]
        for rowid in self._session_rowids():
            try:
                rows = rows_of(self._connection, "sessions", columns, "WHERE rowid = ?", [rowid])
                found = [dict(zip(columns, row, strict=True)) for row in rows]
            except DAMAGE:
                cells = cells_left(self._connection, "sessions", columns, rowid, self._report)
                found = [cells] if "id" in cells else []
            for raw in found:
                yield self._session(rowid, raw)
        yield from self._sessions_of_lost_messages()

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
            rows = rows_left(self._connection, "sessions", ("rowid",), "", (), self._report)
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
            record[name] = time_or(name, raw.get(name), odd, None if name == "ended_at" else oldest)
        parent = raw.get("parent_session_id")
        record["parent_session_id"] = None if parent is None else usable_id(parent)
        record["edge_kind"] = None if parent is None else self._edge_kind(record, parent)
        usage = [] if key is None else self._usage(key)
        if usage:
            record["model_usage"] = usage
        return with_odd(record, odd)

    def _session_id(self, key: Any, rowid: int) -> str:
        session_id = usable_id(key) or f"unknown-{rowid}"
        if session_id != plain_text(key):
            self.notes[session_id] = f"its id {plain_text(key)!r:.250} cannot be used; it is new"
        return session_id

    def _edge_kind(self, record: Record, parent: Any) -> str | None:
        has_end = {"ended_at", "end_reason"} <= set(self._tables["sessions"])
        if not has_end:
            return None
        for end_reason, ended_at in self._rows(
            "sessions",
            ("end_reason", "ended_at"),
            f"WHERE id = {key_mark(parent)}",
            [key_value(parent)],
        ):
            return documented_edge_kind(
                config=object_in(record.get("model_config")),
                source=record["source"],
                started_at=record["started_at"],
                parent_end_reason=plain_text(end_reason),
                parent_ended_at=ended_at if is_finite(ended_at) else None,
                schema_version=self._nature.version,
            )
        return None

    def _sessions_of_lost_messages(self) -> Iterator[Record]:
        # Found in the index alone, so that a damaged table does not hide them.
        lost = self._rows(
            "messages",
            ("session_id",),
            "WHERE session_id NOT IN (SELECT id FROM sessions WHERE id IS NOT NULL) "
            "GROUP BY session_id",
        )
        for (key,) in list(lost):
            messages = self._messages(key)
            session_id = self._session_id(key, 0)
            self.notes[session_id] = "its messages had no session; one was made for them"
            yield {
                "id": session_id,
                "source": "unknown",
                "started_at": min(message["timestamp"] for message in messages),
                "edge_kind": None,
                "messages": messages,
            }

    def _messages(self, key: Any) -> list[Record]:
        columns = self._tables["messages"]
        condition, params = f"WHERE session_id = {key_mark(key)}", [key_value(key)]
        try:
            tail = f"{condition} ORDER BY id"
            rows = list(rows_of(self._connection, "messages", columns, tail, params))
        except DAMAGE:
            rows = rows_left(self._connection, "messages", columns, condition, params, self._report)
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
            "session_model_usage", columns, f"WHERE session_id = {key_mark(key)}", [key_value(key)]
        ):
            odd: dict[str, Any] = {}
            found = {
                _USAGE_NAMES.get(name, name): typed(name, value, odd)
                for name, value in zip(columns, row, strict=True)
            }
            for name in ROUTE_COLUMNS:
                found[name] = plain_text(found.get(name)) or None
            usage.append(found)
        return usage

    # ── tables ────────────────────────────────────────────────────────────────────────────────

    def _list_tables(self) -> dict[str, list[str]]:
        """Return the columns of every table that holds data of its own, names in lower case."""
        listed = self._connection.execute(
            "SELECT lower(name), type FROM pragma_table_list "
            "WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        ).fetchall()
        derived = tuple(f"{name}_" for name, kind in listed if kind == "virtual")
        tables = {}
        for name, kind in listed:
            if kind != "table" or (derived and str(name).startswith(derived)):
                continue
            found = self._connection.execute(
                "SELECT lower(name) FROM pragma_table_xinfo(?) WHERE hidden <> 1", (name,)
            )
            tables[str(name)] = [str(row[0]) for row in found]
        return tables

    def _key_of(self, table: str, values: Mapping[str, Any]) -> str:
        key_columns = self._connection.execute(
            "SELECT lower(name) FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)
        )
        names = [str(row[0]) for row in key_columns] or list(values)
        key = to_json(list(jsonable({name: values[name] for name in names}).values()))
        if stored_length(key) <= MAX_ID_LENGTH:
            return key
        return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()

    def _rows(
        self, table: str, columns: Sequence[str], tail: str = "", params: Sequence[Any] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows of a table that may not exist; what is damaged is reported."""
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


# ── importing ─────────────────────────────────────────────────────────────────────────────────


def require_importable(path: Path) -> None:
    """Refuse a file that `import_database` would refuse, before anything is made for it. One that
    is no database is not looked at, unless it is an empty one that was.

    Raises as `import_database`.
    """
    require_whole_log(path, _repair(path))
    if path.stat().st_size == 0 and was_written(path):
        raise emptied(path)
    if is_database(path):
        with _opened(path):
            pass


@contextmanager
def _opened(path: Path, on_progress: Progress | None = None) -> Iterator[HermesDatabase]:
    require_whole_log(path, _repair(path))
    with reading(path) as connection:
        if has_write_ahead_header(path) and nature_of(connection).kind is Kind.EMPTY:
            # Its tables were in the log, if it ever had some.
            raise StoreCorrupt(
                f"{path}: it has no tables, and its write-ahead log is empty, or gone; whatever "
                f"was written is missing, and nothing was imported. Lay the log beside it as "
                f"{path.name}-wal, or take a backup: hermes backup list"
            )
        yield HermesDatabase(connection, path.name, on_progress)


def _repair(path: Path) -> str:
    return f"hermes repair {quote(str(path))}"


def import_database(db: SessionDB, path: str | Path, on_progress: Progress | None = None) -> Record:
    """Copy everything in a Hermes database into *db* and return a report.

    The source is read as it is at this moment, also while another program uses it, and is never
    changed. Sessions are merged as `SessionDB.import_sessions` does it; one that cannot be stored
    is left out and reported. Values and rows that are stored already stay. Copying again adds
    what is new.

    The report has the keys of `SessionDB.import_sessions`, and ``schema_version``, ``damage``
    (what could not be read), ``meta`` and ``foreign_rows`` (how many were added).

    Raises:
        ImportRefused: the file is not a Hermes database.
        StoreCorrupt: its write-ahead log is damaged, or gone with everything that was written.
        StoreError: the source cannot be read, or *db* cannot be written.
    """
    with _opened(Path(path), on_progress) as source:
        report = db.import_sessions(source, leave_out_invalid=True)
        report["schema_version"] = source.schema_version
        report["meta"] = _add_rows(db, "state_meta", ("key", "value"), ("key",), source.meta())
        report["foreign_rows"] = _add_rows(
            db,
            "foreign_rows",
            _FOREIGN_ROW,
            ("table_name", "row_key"),
            source.other_rows(),
        )
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
    """Insert rows that are not there, in short transactions; return how many were added."""
    insert = db.provider.dialect.insert_if_absent(table, columns, key)
    added = 0
    while batch := list(islice(rows, _ROWS_PER_WRITE)):

        def work(tx: WriteTransaction, batch: list[tuple[Any, ...]] = batch) -> int:
            return sum(tx.run(insert, row) for row in batch)

        added += db.provider.write(work)
    return added
