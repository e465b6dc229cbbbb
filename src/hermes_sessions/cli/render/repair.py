"""Repair findings and reports as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hermes_sessions.cli.render.humanize import counted, size
from hermes_sessions.cli.render.safe_text import one_line

if TYPE_CHECKING:
    from hermes_sessions.storage.care.repair.report import FileFinding, RepairReport, TableReport

#: How many entries of each kind are listed; --json lists all.
_LISTED = 20
_WHERE = {
    "header": "the file header",
    "file": "the file",
    "schema": "the schema",
    "search": "the search index",
    "log": "the write-ahead log",
}


def findings_lines(findings: Sequence[FileFinding]) -> Iterator[str]:
    """Yield one line per finding."""
    for finding in findings[:_LISTED]:
        where = f"table {finding.where}" if finding.what == "table" else _WHERE[finding.what]
        yield f"  {one_line(where)}: {one_line(finding.detail)}"
    yield from _more(len(findings))


def report_lines(report: RepairReport) -> Iterator[str]:
    """Yield the report of a finished repair."""
    if report.state == "sound":
        yield "The file is intact; nothing was changed."
        return
    if report.state == "rebuilt":
        yield "Only the search index was damaged. It was rebuilt; nothing is lost."
        return
    yield f"Recovered ({report.way}):"
    yield from (_table_line(table) for table in report.tables if table.read or table.lost)
    yield from _lost_lines(report)
    for note in report.notes[:_LISTED]:
        yield f"Note: {one_line(note)}"
    yield from _more(len(report.notes))
    yield f"The recovered store is {report.target}."
    if report.kept:
        yield f"The damaged file was kept as {report.kept}."
    if report.removed:
        yield f"Removed older damaged files: {', '.join(report.removed)}"


def _table_line(table: TableReport) -> str:
    remarks = []
    if table.put_back:
        remarks.append(f"{table.put_back} found outside their table")
    if table.duplicates:
        remarks.append(f"{counted(table.duplicates, 'duplicate')}")
    left_out = table.read - table.written - table.duplicates
    if left_out > 0:
        remarks.append(f"{left_out} skipped")
    if table.lost:
        remarks.append(f"lost: ids {_ranges(table.lost)}")
    return f"  {table.name}: {counted(table.written, 'row')}" + (
        f" ({', '.join(remarks)})" if remarks else ""
    )


def _lost_lines(report: RepairReport) -> Iterator[str]:
    if report.is_everything_saved:
        yield "No data is known to be lost."
    if report.incomplete:
        number = counted(len(report.incomplete), "session")
        yield f"Lost: {counted(report.lost_messages, 'message')} of {number}:"
        for session in report.incomplete[:_LISTED]:
            title = f" {one_line(session.title)}" if session.title else ""
            gaps = f"; missing: {_ranges(session.missing)}" if session.missing else ""
            yield (
                f"  {one_line(session.id)}{title}: {session.found} of {session.expected} "
                f"messages{gaps}"
            )
        yield from _more(len(report.incomplete))
    if report.lost_sessions:
        yield f"Lost entirely: {counted(len(report.lost_sessions), 'session')}:"
        yield from (f"  {one_line(name)}" for name in report.lost_sessions[:_LISTED])
        yield from _more(len(report.lost_sessions))
    if report.adopted:
        yield (
            f"Recreated from their messages: {counted(len(report.adopted), 'session')} whose own "
            f"data was lost:"
        )
        for name, count in list(report.adopted.items())[:_LISTED]:
            yield f"  {one_line(name)}: {counted(count, 'message')}"
        yield from _more(len(report.adopted))
    if report.damaged_texts:
        texts = counted(report.damaged_texts, "row")
        yield f"Damaged or incomplete text: {texts}; see the notes."
    if report.lost_tables:
        yield (
            f"Lost: tables without a readable name, with any rows they had: "
            f"{', '.join(report.lost_tables)}"
        )
    for table, rows in report.lost_rows.items():
        if rows is None:
            yield f"Damaged: {table}; it may have had more rows."
        else:
            yield f"Lost: {counted(rows, 'row')} of {table}."
    if report.unreadable_bytes:
        yield f"The disk could not read {size(report.unreadable_bytes)}."


def _more(count: int) -> Iterator[str]:
    if count > _LISTED:
        yield f"  … and {count - _LISTED} more (--json lists all)"


def _ranges(found: Sequence[tuple[int, int]]) -> str:
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in found[:_LISTED]]
    return ", ".join(texts) + (", …" if len(found) > _LISTED else "")
