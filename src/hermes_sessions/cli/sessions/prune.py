"""``hermes sessions prune``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import (
    number_of_days,
    pass_console,
    selection_options,
    source_option,
    yes_option,
)
from hermes_sessions.cli.render.humanize import date
from hermes_sessions.cli.selection import SelectionOptions
from hermes_sessions.cli.sessions.delete import (
    confirm_removal,
    dry_run_option,
    explain,
    leaving_no_trace,
    measured,
    purge_option,
    report_removal,
)
from hermes_sessions.cli.store import open_for_reading, open_for_writing, transcripts_directory
from hermes_sessions.storage.sessiondb import SessionDB

Record = Mapping[str, Any]

#: Sessions moved to the trash in one transaction, unless one conversation has more.
_BATCH = 100


@click.command(short_help="Move old, ended sessions to the trash.")
@click.option(
    "--older-than",
    metavar="DAYS",
    default="90",
    show_default=True,
    callback=number_of_days,
    help="Only conversations inactive for at least DAYS days.",
)
@source_option
@dry_run_option
@purge_option
@yes_option
@selection_options
@pass_console
def prune(
    console: Console,
    *,
    older_than: float,
    source: str | None,
    dry_run: bool,
    purge: bool,
    yes: bool,
    selection: SelectionOptions,
) -> None:
    """Move old conversations to the trash, after a confirmation.

    A conversation is pruned as a whole, once all its sessions have ended, none was active
    recently, and none is pinned. With a tag, metadata or a workspace, all its sessions but
    subagents must have it.
    """
    opened = open_for_reading if dry_run else open_for_writing
    with opened(console) as db:
        rule: Record = {
            "older_than_days": older_than,
            "source": source,
            **selection.read(db).parameters(),
        }
        old = db.list_prune_candidates(**rule)
        if not old and not console.as_json:
            console.print(f"Nothing to prune: {_rule(older_than)}.")
            return
        if dry_run:
            explain(console, measured(db, old, _reason), purge=purge)
            return
        if old and not yes:
            confirm_removal(console, measured(db, old, _reason), purge=purge)
        if purge:
            removed, messages = _purge(console, db, old, rule)
        else:
            removed, messages = _move_to_trash(console, db, old, rule)
    report_removal(console, removed, messages, purged=purge, undo=removed)


def _rule(older_than: float) -> str:
    days = f"{older_than:g} day{'' if older_than == 1 else 's'}"
    return f"no unpinned conversation has ended and been inactive for more than {days}"


def _reason(session: Record) -> str:
    why = f" ({session['end_reason']})" if session["end_reason"] else ""
    return f"ended {date(session['ended_at'])}{why}, last active {date(session['last_active'])}"


def _move_to_trash(
    console: Console, db: SessionDB, shown: Sequence[Record], rule: Record
) -> tuple[list[str], int]:
    # A conversation may have been used while the question was on the screen.
    agreed = {session["id"]: session for session in shown}
    still_old = [s for s in db.list_prune_candidates(**rule) if s["id"] in agreed]
    moved: list[str] = []
    with console.progress("Pruning", len(still_old)) as progress:
        for batch in _batches(still_old):
            moved += db.trash_sessions(batch)
            progress.advance(len(batch))
    return moved, sum(agreed[i]["message_count"] or 0 for i in moved if i in agreed)


def _batches(sessions: Sequence[Record]) -> Iterator[list[str]]:
    """Yield ids in batches that never split a conversation."""
    batch: list[str] = []
    for _, members in groupby(sessions, key=lambda session: session["conversation_id"]):
        batch += [member["id"] for member in members]
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _purge(
    console: Console, db: SessionDB, shown: Sequence[Record], rule: Record
) -> tuple[list[str], int]:
    with leaving_no_trace(console, db), console.progress("Pruning", len(shown)) as progress:
        db.prune_sessions(
            **rule, sessions_dir=transcripts_directory(), on_progress=progress.advance
        )
    gone = [session for session in shown if db.get_session(session["id"]) is None]
    return [s["id"] for s in gone], sum(s["message_count"] or 0 for s in gone)
