"""Build a new store from the copy of a damaged file, and report on every row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes_sessions.errors import InvalidInput, NotADatabase, SchemaRefused
from hermes_sessions.storage.care.repair.report import (
    IncompleteSession,
    RepairOptions,
    RepairReport,
    TableReport,
)
from hermes_sessions.storage.provider import ReadTransaction
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite.hermes_database import import_database
from hermes_sessions.storage.sqlite.migrations import APPLICATION_ID, DOCUMENTED_VERSION
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from hermes_sessions.storage.sqlite.repair import row_file
from hermes_sessions.storage.sqlite.repair.disk_format import is_marked_as_ours
from hermes_sessions.storage.sqlite.repair.file_check import NO_TEXT, ZEROS
from hermes_sessions.storage.sqlite.repair.rebuild import RebuildResult, rebuild
from hermes_sessions.storage.sqlite.repair.recover_tool import (
    find_recover_tool,
    is_derived,
    recover_with,
    truncated_rows,
)
from hermes_sessions.storage.sqlite.repair.row_file import RowFile
from hermes_sessions.storage.sqlite.repair.row_reader import (
    IndexEvidence,
    carve_into,
    drop_duplicate_schema_entries,
    ranges,
    read_index_evidence,
    read_row_by_row,
    rows_lost,
)
from hermes_sessions.storage.tables import TABLES_BY_STEP


def salvage(
    work: Path, new: Path, page_size: int, options: RepairOptions, report: RepairReport
) -> None:
    """Build the store *new* from what can be read of ``damaged.db`` in *work*, and add to *report*
    what was recovered and what was lost.

    Raises:
        NotADatabase: nothing looks like a session or a message.
        SchemaRefused: a later Hermes wrote it, and that is not allowed here.
        InvalidInput: the tool was requested, but no usable one is installed.
    """
    copy = work / "damaged.db"
    # The tool's output ends at the first NUL of a text, and alters text that is not UTF-8. A store
    # of ours has neither; older layouts have a NUL before structured content.
    is_fit = is_marked_as_ours(copy) and not any(
        finding.detail in (NO_TEXT, ZEROS) for finding in report.findings
    )
    wants_tool = options.way == "tool" or (options.way == "auto" and is_fit)
    tool = find_recover_tool() if wants_tool else None
    if options.way == "tool" and tool is None:
        raise InvalidInput(
            "No sqlite3 tool with .recover is installed. Install one that is built with it, "
            "or omit --way."
        )
    twice = drop_duplicate_schema_entries(copy)
    report.notes += [f"the schema listed {name} twice" for name in twice]
    with RowFile(work / "rows.db") as rows:
        if tool is not None:
            report.way = "sqlite3 .recover"
            _recover(tool, copy, page_size, rows, options, report)
        else:
            report.way = "row by row"
            read_row_by_row(
                copy, page_size, rows, lambda count: options.on_progress("reading", count)
            )
        if not set(row_file.ORDER) <= {name.lower() for name in rows.tables()}:
            # Even their names are damaged, but their rows can be recognised.
            carve_into(copy, page_size, rows)
        put_back, report.unknown_rows = row_file.put_back(rows)
        _require_readable_rows(rows, report)
        options.on_progress("writing", 0)
        if _is_ours(rows):
            _save_own(rows, new, copy, put_back, options, report)
        else:
            _require_known(rows, report, may_be_later=options.to is not None)
            _save_documented(rows, new, put_back, options, report)


def _recover(
    tool: str,
    copy: Path,
    page_size: int,
    rows: RowFile,
    options: RepairOptions,
    report: RepairReport,
) -> None:
    """Read the copy with the tool, and report the texts it altered, because it does not."""
    changed = dict.fromkeys(
        recover_with(tool, copy, rows, lambda count: options.on_progress("reading", count)),
        "a text in it was not UTF-8, and the tool saved other characters instead",
    )
    changed |= dict.fromkeys(
        truncated_rows(copy, page_size, rows), "the tool saved only a part of a text in it"
    )
    for (table, row_id), what in changed.items():
        name = None if is_derived(table) else row_file.name_of(rows, table, row_id)
        if name is not None:
            report.damaged_texts += 1
            report.notes.append(f"{name[0]} {name[1]}: {what}")


def _require_readable_rows(rows: RowFile, report: RepairReport) -> None:
    tables = {name.lower() for name in rows.tables()}
    if not {"sessions", "messages"} & tables:
        raise NotADatabase(
            f"{report.path}: nothing in it looks like a session or a message. It was left as it "
            f"is; restore a backup, or choose another path."
        )


def _is_ours(rows: RowFile) -> bool:
    tables = {name.lower() for name in rows.tables()}
    columns = {name.lower() for name in rows.columns("messages")}
    return (
        rows.connection.pragma("application_id") == APPLICATION_ID
        or "store_migrations" in tables
        or "ordinal" in columns
    )


def _require_known(rows: RowFile, report: RepairReport, *, may_be_later: bool) -> None:
    stated = 0
    if rows.columns("schema_version"):
        for (version,) in rows.rows("schema_version", ("version",)):
            stated = max(stated, version if isinstance(version, int) else 0)
    if stated == 0:
        rows.make("schema_version", ("version",))
        rows.add("schema_version", ("version",), [(DOCUMENTED_VERSION,)])
    if stated > DOCUMENTED_VERSION and not may_be_later:
        raise SchemaRefused(
            f"{report.path} was written by a later Hermes (schema version {stated}), which could "
            f"not read the repaired file; it was not changed. To recover what can be read "
            f"into a separate store: hermes repair {report.path} --to NEW_FILE"
        )


# A store of ours


def _save_own(
    rows: RowFile,
    new: Path,
    copy: Path,
    put_back: dict[str, int],
    options: RepairOptions,
    report: RepairReport,
) -> None:
    known = read_index_evidence(copy)
    provider = SQLiteSessionDBProvider(new)
    with SessionDB(provider=provider, clock=options.clock) as db:
        rebuilt = rebuild(rows, provider)
        report.lost_tables = _lost_tables(rows, rebuilt.absent)
        # Lost messages are detected by their ids and by the counters of their sessions; sessions by
        # their ids, if an index has them.
        others = {name: read for name, read in rebuilt.read.items() if name != "messages"}
        report.lost_rows = {
            name: number
            for name, number in rows_lost(copy, others).items()
            if name != "sessions" or number is None
        }
        with provider.read() as tx:
            _account(tx, rebuilt, known, put_back, report)
        db.optimize_search(on_progress=lambda done, _all: options.on_progress("indexing", done))


def _lost_tables(rows: RowFile, absent: list[str]) -> list[str]:
    """Return the absent tables that the damaged file had, by its own list of migrations."""
    taken: set[Any] = set()
    if rows.columns("store_migrations"):
        taken = {name for (name,) in rows.rows("store_migrations", ("name",))}
    later = {
        table.name
        for step, tables in TABLES_BY_STEP.items()
        if taken and step not in taken
        for table in tables
    }
    return [name for name in absent if name not in later]


def _account(
    tx: ReadTransaction,
    rebuilt: RebuildResult,
    known: IndexEvidence,
    put_back: dict[str, int],
    report: RepairReport,
) -> None:
    lost_messages = known.messages - {row[0] for row in tx.stream("SELECT id FROM messages")}
    for name, read in rebuilt.read.items():
        report.tables.append(
            TableReport(
                name,
                read,
                rebuilt.written[name],
                put_back.get(name, 0),
                rebuilt.duplicates.get(name, 0),
                ranges(lost_messages) if name == "messages" else [],
            )
        )
    present = {row[0] for row in tx.stream("SELECT id FROM sessions")}
    gone = known.sessions | known.places.keys()
    report.lost_sessions = sorted(gone - present)
    report.adopted = rebuilt.adopted
    report.notes += rebuilt.notes
    report.damaged_texts += sum(rebuilt.damaged.values())
    report.incomplete = _incomplete(tx, rebuilt, known)


def _incomplete(
    tx: ReadTransaction, rebuilt: RebuildResult, known: IndexEvidence
) -> list[IncompleteSession]:
    found: list[IncompleteSession] = []
    for session_id, title, counted, following in tx.all(
        "SELECT id, title, message_count, next_ordinal FROM sessions ORDER BY started_at, id"
    ):
        claimed = rebuilt.incomplete.get(session_id, (counted, counted))[0]
        places = known.places.get(session_id, set())
        if claimed <= counted and not places:
            continue
        present = {
            row[0]
            for row in tx.all("SELECT ordinal FROM messages WHERE session_id = ?", (session_id,))
        }
        missing = places - present
        if claimed > counted and not missing:
            # Without an index: the gaps between the present ones, and before the next one.
            missing = set(range(1, following)) - present
        if claimed > counted or missing:
            expected = claimed if claimed > counted else counted + len(missing)
            found.append(IncompleteSession(session_id, title, expected, counted, ranges(missing)))
    return found


# A documented layout


def _save_documented(
    rows: RowFile,
    new: Path,
    put_back: dict[str, int],
    options: RepairOptions,
    report: RepairReport,
) -> None:
    """Copy everything into a store of ours, like an import."""
    for name in ("sessions", "messages"):
        rows.make(name, row_file.ORDER[name])
    read = {name: rows.count(name) for name in ("sessions", "messages")}
    counters: dict[Any, Any] = {}
    columns = {name.lower() for name in rows.columns("sessions")}
    if {"id", "message_count"} <= columns:
        counters = dict(rows.rows("sessions", ("id", "message_count")))
    with SessionDB(new, clock=options.clock) as db:
        imported = import_database(db, rows.path)
        report.notes += [f"{note['id']}: {note['note']}" for note in imported["notes"]]
        report.notes += [str(error["error"]) for error in imported["errors"]]
        report.notes.append("it had the layout of an older Hermes, and was upgraded")
        written = {"sessions": db.session_count(include_archived=True), "messages": 0}
        with db.provider.read() as tx:
            for name in written:
                row = tx.one(f"SELECT COUNT(*) FROM {name}")
                written[name] = int(row[0]) if row else 0
            for session_id, title, count in tx.all(
                "SELECT id, title, message_count FROM sessions ORDER BY started_at, id"
            ):
                claimed = counters.get(session_id)
                if isinstance(claimed, int) and claimed > count:
                    report.incomplete.append(
                        IncompleteSession(session_id, title, claimed, count, [])
                    )
                elif session_id not in counters and counters:
                    report.adopted[session_id] = count
        report.tables = [
            TableReport(name, read[name], written[name], put_back.get(name, 0)) for name in read
        ]
        db.optimize_search()
