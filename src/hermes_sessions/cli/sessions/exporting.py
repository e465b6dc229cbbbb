"""``hermes sessions export``."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.files import STANDARD_STREAM, FileRefused, written_whole
from hermes_sessions.cli.options import source_option, speaks_to_console
from hermes_sessions.cli.progress import Progress
from hermes_sessions.cli.render.quantity import counted
from hermes_sessions.cli.render.safety import one_line
from hermes_sessions.cli.selection import find_session
from hermes_sessions.cli.store import is_file_of_store, open_for_reading
from hermes_sessions.errors import NotFound
from hermes_sessions.storage.jsonl import write_jsonl
from hermes_sessions.storage.sessiondb import SessionDB

Record = dict[str, Any]


class _Tally:
    """Counts what passes by on its way to the file."""

    def __init__(self, progress: Progress) -> None:
        self.sessions = 0
        self.messages = 0
        self._progress = progress

    def counting(self, records: Iterator[Record]) -> Iterator[Record]:
        """Yield *records*, counted."""
        for record in records:
            yield record
            self.sessions += 1
            self.messages += len(record["messages"])
            self._progress.advance()


@click.command(short_help="Write sessions to a JSONL file.")
@click.argument("target", metavar="FILE")
@source_option
@click.option(
    "--session-id",
    "references",
    metavar="ID",
    multiple=True,
    help="Only this session: an id, the beginning of one, or a title. Can be repeated.",
)
@click.option("--force", is_flag=True, help="Replace FILE when it exists.")
@speaks_to_console
def export(
    console: Console, *, target: str, source: str | None, references: tuple[str, ...], force: bool
) -> None:
    """Write sessions with all their messages to FILE, one JSON object per line.

    FILE appears when it is complete. "-" is standard output. "hermes sessions import" reads such a
    file back without loss. Archived sessions are included, those in the trash are not.
    """
    if source and references:
        raise click.UsageError(
            "--source and --session-id cannot be combined.", click.get_current_context()
        )
    if target != STANDARD_STREAM and is_file_of_store(target):
        raise FileRefused(f"{target} belongs to the store itself. Choose another name.")
    with open_for_reading(console) as db:
        ids = [find_session(db, reference)["id"] for reference in references]
        ids = list(dict.fromkeys(ids))
        total = len(ids) or db.session_count(source, include_archived=True)
        records = _named(db, ids) if ids else _all(db, source)
        with (
            written_whole(target, replace=force) as file,
            console.progress("Exporting", total) as progress,
            closing(records),
        ):
            tally = _Tally(progress)
            write_jsonl(tally.counting(records), file)
    if target != STANDARD_STREAM:
        _report(console, target, tally)


def _all(db: SessionDB, source: str | None) -> Generator[Record, None, None]:
    yield from db.iter_export(source)


def _named(db: SessionDB, ids: list[str]) -> Generator[Record, None, None]:
    for session_id in ids:
        record = db.export_session(session_id)
        if record is None:
            raise NotFound(f"Session {session_id} was deleted meanwhile.")
        yield record


def _report(console: Console, target: str, tally: _Tally) -> None:
    if console.as_json:
        console.print_json({"exported": tally.sessions, "messages": tally.messages, "file": target})
        return
    what = f"{counted(tally.sessions, 'session')} ({counted(tally.messages, 'message')})"
    console.print(f"Exported {what} to {one_line(target)}")
