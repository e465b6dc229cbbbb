"""``hermes sessions delete``, and what it shares with ``prune``, ``trash`` and ``forget``."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console, yes_option
from hermes_sessions.cli.render.deletions import (
    DeletionCandidate,
    amount,
    deletion_lines,
    deletions_document,
    session_name,
)
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.shell_commands import command_on
from hermes_sessions.cli.session_lookup import find_session
from hermes_sessions.cli.store import open_for_reading, open_for_writing, transcripts_directory
from hermes_sessions.model.lineage import SUBAGENT
from hermes_sessions.storage.sessiondb import SessionDB

Record = Mapping[str, Any]

#: The undo command is printed with at most this many ids.
_IDS_SHOWN = 3

dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would be deleted and why; change nothing."
)
purge_option = click.option(
    "--purge", is_flag=True, help="Delete permanently, bypassing the trash."
)


@click.command(short_help="Move sessions to the trash.")
@click.argument("references", metavar="ID...", nargs=-1, required=True)
@click.option(
    "--only", is_flag=True, help="Delete only the named sessions, not the rest of the conversation."
)
@dry_run_option
@purge_option
@yes_option
@pass_console
def delete(
    console: Console,
    *,
    references: tuple[str, ...],
    only: bool,
    dry_run: bool,
    purge: bool,
    yes: bool,
) -> None:
    """Move sessions to the trash, after a confirmation.

    A conversation that was continued under new ids is deleted as a whole, together with the
    subagents it started; branches stay. If any ID is unknown, nothing is deleted.
    """
    opened = open_for_reading if dry_run else open_for_writing
    with opened(console) as db:
        doomed: dict[str, Record] = {}
        named: dict[str, None] = {}
        for reference in references:
            session = find_session(db, reference)
            named[session["id"]] = None
            doomed |= {member["id"]: member for member in _with_parts(db, session, only=only)}
        if dry_run or not yes:
            sessions = list(doomed.values())
            deletions = measured(db, sessions, lambda s: _reason(s, named))
            if dry_run:
                explain(console, deletions, purge=purge)
                return
            console.tell(f"  {session_name(session)}" for session in sessions)
            confirm_removal(console, deletions, purge=purge)
        removed = _remove(console, db, list(doomed), purge=purge)
    messages = sum(doomed[i]["message_count"] or 0 for i in removed if i in doomed)
    report_removal(console, removed, messages, purged=purge, undo=list(named))


def measured(
    db: SessionDB, sessions: Sequence[Record], reason: Callable[[Record], str]
) -> list[DeletionCandidate]:
    """Return *sessions* as deletion candidates, each with its size and *reason*."""
    sizes = db.measure_sessions(session["id"] for session in sessions)
    return [
        DeletionCandidate(session, reason(session), sizes[session["id"]]) for session in sessions
    ]


def explain(console: Console, deletions: Sequence[DeletionCandidate], *, purge: bool) -> None:
    """Print what would be deleted, and why."""
    if console.as_json:
        console.print_json(deletions_document(deletions, purge=purge))
        return
    console.print([*deletion_lines(deletions, console.style), ""])
    what = amount(deletions)
    would = f"Would delete {what} permanently" if purge else f"Would move {what} to the trash"
    console.print(f"{would}. Nothing was changed.")


def confirm_removal(
    console: Console, deletions: Sequence[DeletionCandidate], *, purge: bool
) -> None:
    """Ask whether to delete these sessions; exit with 1 unless the answer is yes."""
    what = amount(deletions)
    question = (
        f"Delete {what} permanently? This cannot be undone."
        if purge
        else f"Move {what} to the trash?"
    )
    if not console.confirm(question):
        console.tell("Cancelled; nothing was changed.")
        raise click.exceptions.Exit(1)


def report_removal(
    console: Console,
    session_ids: Sequence[str],
    messages: int,
    *,
    purged: bool,
    undo: Sequence[str] = (),
) -> None:
    """Print what was deleted; restoring the ids in *undo* brings all of it back."""
    if console.as_json:
        console.print_json({"deleted": list(session_ids), "messages": messages, "purged": purged})
        return
    what = f"{counted(len(session_ids), 'session')} ({counted(messages, 'message')})"
    if purged:
        console.print(f"Deleted {what} permanently.")
    else:
        many = len(undo) > _IDS_SHOWN
        undoing = "hermes sessions restore ID..." if many else command_on("restore", *undo)
        console.print(f"Moved {what} to the trash. To undo: {undoing}")


@contextmanager
def leaving_no_trace(console: Console, db: SessionDB) -> Iterator[None]:
    """Overwrite what the block deletes, and print where some of it may stay readable."""
    from hermes_sessions.storage.care.erasure.row_removal import scrub

    with db.provider.leaving_no_trace():
        yield
    for step in scrub(db.store):
        if step.status == "pending":
            console.tell(
                f"Some deleted data may still be readable in the {step.place}: {step.why} "
                f"Try again later: hermes sessions trash --empty"
            )


def _reason(session: Record, named: Container[str]) -> str:
    if session["id"] in named:
        return "named"
    if session["edge_kind"] == SUBAGENT:
        return f"subagent of {session['parent_session_id']}"
    return "part of the same conversation"


def _with_parts(db: SessionDB, session: Record, *, only: bool) -> list[Record]:
    """Return the sessions deleted with *session*: its chain, and their subagents."""
    family = db.list_conversation(session["id"])
    going = {session["id"]} if only else set(db.get_compression_lineage(session["id"]))
    going.add(session["id"])
    while more := {
        member["id"]
        for member in family
        if member["edge_kind"] == SUBAGENT
        and member["parent_session_id"] in going
        and member["id"] not in going
    }:
        going |= more
    return [member for member in family if member["id"] in going]


def _remove(console: Console, db: SessionDB, ids: Sequence[str], *, purge: bool) -> list[str]:
    if not purge:
        return db.trash_sessions(ids)
    files = transcripts_directory()
    with leaving_no_trace(console, db), console.progress("Deleting", len(ids)) as progress:
        for session_id in ids:
            db.delete_session(session_id, files)
            progress.advance()
    return list(ids)
