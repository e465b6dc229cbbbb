"""``hermes sessions export``."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

import click

from hermes_sessions.cli.console import Console, Progress
from hermes_sessions.cli.files import STANDARD_STREAM, FileRefused, atomic_write
from hermes_sessions.cli.options import pass_console, selection_options, source_option, time_span
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.selection import Selection, SelectionOptions
from hermes_sessions.cli.session_lookup import find_session
from hermes_sessions.cli.sessions.export_formats import FORMS, JSONL, form_of, write_as
from hermes_sessions.cli.store import is_file_of_store, open_for_reading, open_for_searching
from hermes_sessions.errors import NotFound
from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.sessiondb import SessionDB

if TYPE_CHECKING:
    from hermes_sessions.text.redaction import Redactor

Record = Mapping[str, Any]

#: Hits read at a time.
_PAGE = 200


class _Tally:
    """Counts the sessions and messages that are written."""

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


@click.command(short_help="Export sessions as JSONL, Markdown or HTML.")
@click.argument("target", metavar="FILE")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMS)),
    help="The format; by default that of FILE's extension, else jsonl.",
)
@click.option(
    "--attachments",
    type=click.Choice(["embed", "zip"]),
    default="embed",
    show_default=True,
    help="Where JSONL has images and files: in the lines, or in FILE.attachments.zip beside them.",
)
@click.option(
    "--redact",
    is_flag=True,
    help="Redact API keys, tokens, passwords, e-mail addresses and home directory names.",
)
@click.option(
    "--query",
    metavar="QUERY",
    help="Only sessions that match this search query; it is not relaxed.",
)
@source_option
@click.option(
    "--since", metavar="WHEN", help="Only sessions active at or after this time: 2026-05-01, 7d."
)
@click.option("--until", metavar="WHEN", help="Only sessions last active before this time.")
@click.option("--title", metavar="TEXT", help="Only sessions whose title contains TEXT.")
@click.option("--user", metavar="ID", help="Only sessions of this user.")
@click.option(
    "--session-id",
    "references",
    metavar="ID",
    multiple=True,
    help="Only this session: an id, its beginning, or a title. Can be repeated.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@selection_options
@pass_console
def export(
    console: Console,
    *,
    target: str,
    form: str | None,
    attachments: str,
    redact: bool,
    query: str | None,
    references: tuple[str, ...],
    force: bool,
    selection: SelectionOptions,
    **filters: Any,
) -> None:
    """Export sessions with all their messages to FILE.

    FILE is written atomically; "-" is standard output. JSONL has one session per line, and
    "hermes sessions import" reads it back without loss; Markdown and HTML are for reading and
    sharing. Archived sessions are included, sessions in the trash are not.
    """
    limits = {"query": query, **filters}
    given = next((name for name, value in limits.items() if value), None)
    if given is None and selection:
        given = selection.given()
    if given and references:
        raise click.UsageError(
            f"--{given} and --session-id cannot be combined.", click.get_current_context()
        )
    if target != STANDARD_STREAM and is_file_of_store(target):
        raise FileRefused(f"{target} is part of the store. Choose another file name.")
    form = form or form_of(target)
    zipped = _zip_beside(target, form) if attachments == "zip" else None
    redactor = _redactor() if redact else None
    with open_for_reading(console) if query is None else open_for_searching(console) as db:
        ids = [find_session(db, reference)["id"] for reference in references]
        ids = list(dict.fromkeys(ids))
        if query is not None:
            ids = _found(console, db, query, filters, selection.read(db))
        total = len(ids) or db.session_count(filters["source"], include_archived=True)
        records = _named(db, ids) if ids else _filtered(console, db, filters, selection.read(db))
        with (
            atomic_write(target, replace=force) as file,
            console.progress("Exporting", total) as progress,
            closing(records),
            atomic_write(zipped, replace=force) if zipped else nullcontext() as archive,
        ):
            tally = _Tally(progress)
            passing = tally.counting(records)
            if redactor is not None:
                passing = map(redactor.record, passing)
            if archive is not None:
                from hermes_sessions.storage.attachment_archive import ArchiveWriter

                passing = ArchiveWriter(archive).passing(passing)
            write_as(form, passing, file)
    if target != STANDARD_STREAM:
        _report(console, target, tally, redactor)


def _zip_beside(target: str, form: str) -> str:
    if form != JSONL or target == STANDARD_STREAM:
        raise click.UsageError("--attachments zip needs a JSONL file.", click.get_current_context())
    from hermes_sessions.storage.attachment_archive import archive_of  # only for --attachments zip

    return str(archive_of(target))


def _redactor() -> Redactor:
    from hermes_sessions.text.redaction import Redactor  # loaded only for --redact

    return Redactor()


def _filtered(
    console: Console, db: SessionDB, filters: dict[str, Any], selection: Selection
) -> Generator[Record, None, None]:
    after, before = time_span(console, filters["since"], filters["until"])
    yield from db.iter_export(
        filters["source"],
        since=after,
        until=before,
        title=filters["title"],
        scope=Scope(user_id=filters["user"]),
        **selection.parameters(),
    )


def _found(
    console: Console, db: SessionDB, query: str, filters: dict[str, Any], selection: Selection
) -> list[str]:
    """Return the sessions that match the query, newest first.

    Raises:
        NotFound: none matches; an empty file would look like a complete export.
    """
    # Loaded only for --query.
    from hermes_sessions.text.query.filters import SearchConditions

    after, before = time_span(console, filters["since"], filters["until"])
    conditions = SearchConditions(
        sources=(filters["source"],) if filters["source"] else None,
        users=(filters["user"],) if filters["user"] else (),
        after=after,
        before=before,
    )
    conditions = selection.narrowed(conditions)
    found: dict[str, str] = {}
    cursor: str | None = None
    while True:
        answer = db.search(
            query, conditions=conditions, limit=_PAGE, sort="newest", cursor=cursor, relax=False
        )
        found.update((hit.session_id, hit.title or "") for hit in answer.hits)
        cursor = answer.next_cursor
        if cursor is None:
            break
    wanted = (filters["title"] or "").casefold()
    ids = [session_id for session_id, title in found.items() if wanted in title.casefold()]
    if not ids:
        raise NotFound(f"No session matches {query!r}; nothing was written.")
    return ids


def _named(db: SessionDB, ids: list[str]) -> Generator[Record, None, None]:
    for session_id in ids:
        record = db.export_session(session_id)
        if record is None:
            raise NotFound(f"Session {session_id} has just been deleted.")
        yield record


def _report(console: Console, target: str, tally: _Tally, redactor: Redactor | None) -> None:
    if console.as_json:
        redacted = {"redacted": dict(redactor.counts)} if redactor else {}
        written = {"exported": tally.sessions, "messages": tally.messages, "file": target}
        console.print_json({**written, **redacted})
        return
    what = f"{counted(tally.sessions, 'session')} ({counted(tally.messages, 'message')})"
    console.print(f"Exported {what} to {one_line(target)}")
    if redactor is not None:
        kinds = ", ".join(f"{number} {name}" for name, number in redactor.counts.items())
        console.print(f"Redacted: {kinds or 'nothing'}. Review the file before you share it.")
