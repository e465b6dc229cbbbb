"""``hermes sessions import``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.files import STANDARD_STREAM, rereadable_copy
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.store import configured_file, open_for_writing
from hermes_sessions.errors import ImportRefused
from hermes_sessions.storage.jsonl import import_file
from hermes_sessions.storage.provider_registry import file_care

Record = Mapping[str, Any]

#: How many lines of one kind are printed; --json lists all.
_SHOWN = 10


@click.command("import", short_help="Import sessions from a file.")
@click.argument("source", metavar="FILE")
@click.option(
    "--into",
    metavar="PATH",
    help="Import into this SQLite file, created if missing, instead of the store.",
)
@pass_console
def import_(console: Console, *, source: str, into: str | None) -> None:
    """Import sessions from FILE into the store.

    FILE is a JSONL file written by "hermes sessions export" ("-" is standard input), or the
    database of any Hermes version; it is only read. Importing a file again only adds what is new.
    A session that is already stored with different content is skipped, and the exit code is 1.
    """
    care = file_care()
    with rereadable_copy(source) as path:
        from_database = source != STANDARD_STREAM and care.is_database(path)
        if source != STANDARD_STREAM:
            care.require_importable(path)
        target = _target(path, into, from_database=from_database)
        with open_for_writing(console, target) as db:
            reader = care.import_database if from_database else import_file
            with console.progress("Importing", 1) as progress:
                report = reader(db, path, progress.reach)
    store = target or configured_file()
    if console.as_json:
        console.print_json({"store": str(store), **_document(report)})
    else:
        console.print(_summary(report, source, target))
    console.tell(_remarks(report))
    if target is not None and os.path.realpath(configured_file()) != os.path.realpath(target):
        # In config.yaml, a relative path would start at the home directory.
        shown = one_line(os.path.abspath(target))  # noqa: PTH100 - links stay as they are
        console.tell(f"To use these sessions, set in config.yaml: sessiondb.sqlite.path: {shown}")
    if report["conflicts"] or report["errors"] or report.get("damage"):
        raise click.exceptions.Exit(1)


def _target(source: Path, into: str | None, *, from_database: bool) -> Path | None:
    """Return the file to import into, None for the configured store."""
    if into is not None:
        if os.path.realpath(into) == os.path.realpath(source):
            raise ImportRefused(f"{source} cannot be imported into itself.")
        return Path(into)
    if not from_database:
        return None
    configured = configured_file()
    target = file_care().import_target(source, configured)
    return None if target == configured else target


def _summary(report: Record, source: str, target: Path | None) -> str:
    parts = [f"Imported {counted(report['imported'], 'session')} from {source}"]
    if target is not None:
        parts[0] += f" into {target}"
    if report["extended"]:
        parts.append(f"extended {report['extended']}")
    if report["skipped"]:
        parts.append(f"{report['skipped']} already stored")
    if report.get("topics"):
        parts.append(f"bound {counted(report['topics'], 'Telegram topic')}")
    if report.get("routing"):
        parts.append(f"added {counted(report['routing'], 'messenger route')}")
    return one_line(", ".join(parts) + ".")


def _document(report: Record) -> dict[str, Any]:
    return {
        "imported": report["imported"],
        "extended": report["extended"],
        "skipped": report["skipped"],
        "conflicts": report["conflicts"],
        "errors": report["errors"],
        "damage": report.get("damage", []),
        "notes": report["notes"],
        "topics": report.get("topics", 0),
        "routing": report.get("routing", 0),
        "kept": report.get("kept", {}),
        "left_out": report.get("left_out", []),
    }


def _remarks(report: Record) -> Iterator[str]:
    if kept := {table: rows for table, rows in report.get("kept", {}).items() if rows}:
        rows = ", ".join(f"{table} ({counted(count, 'row')})" for table, count in kept.items())
        yield one_line(f"Kept in the table foreign_rows: {rows}")
    reasons: dict[str, list[str]] = {}
    for entry in report.get("left_out", []):
        name = ".".join(entry[key] for key in ("table", "column") if key in entry)
        reasons.setdefault(entry["reason"], []).append(name)
    for reason, named in reasons.items():
        yield one_line(f"Not copied: {', '.join(named)}: {reason}")
    kinds: tuple[tuple[str, Sequence[str]], ...] = (
        ("Skipped", [f"{c['id']}: {c['reason']}" for c in report["conflicts"]]),
        (
            "Not imported",
            [f"session number {e['index'] + 1}: {e['error']}" for e in report["errors"]],
        ),
        ("Damaged", report.get("damage", [])),
        ("Note", [f"{note['id']}: {note['note']}" for note in report["notes"]]),
    )
    for label, lines in kinds:
        for line in lines[:_SHOWN]:
            yield f"{label}: {one_line(line)}"
        if len(lines) > _SHOWN:
            yield f"{label}: ... and {len(lines) - _SHOWN} more (--json lists all)"
