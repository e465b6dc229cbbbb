"""``hermes sessions delete``, and what it shares with ``prune``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import speaks_to_console, yes_option
from hermes_sessions.cli.render.command import command_on
from hermes_sessions.cli.render.quantity import counted
from hermes_sessions.cli.render.safety import one_line
from hermes_sessions.cli.selection import find_session
from hermes_sessions.cli.store import open_for_writing, transcripts_directory
from hermes_sessions.model.lineage import SUBAGENT
from hermes_sessions.storage.sessiondb import SessionDB

Record = dict[str, Any]

#: How many ids the command that undoes it is shown with.
_IDS_SHOWN = 3

purge_option = click.option(
    "--purge", is_flag=True, help="Delete for good at once, past the trash."
)


@click.command(short_help="Move sessions to the trash.")
@click.argument("references", metavar="ID...", nargs=-1, required=True)
@click.option(
    "--only", is_flag=True, help="Only the sessions named, not the other parts of the conversation."
)
@purge_option
@yes_option
@speaks_to_console
def delete(
    console: Console, *, references: tuple[str, ...], only: bool, purge: bool, yes: bool
) -> None:
    """Move sessions to the trash, after a confirmation.

    A conversation that was continued under new ids is deleted as a whole, as it is one line of the
    list; so are the subagents it started. Branches stay. Nothing is deleted when any ID is
    unknown.
    """
    with open_for_writing(console) as db:
        doomed: dict[str, Record] = {}
        named: dict[str, None] = {}
        for reference in references:
            session = find_session(db, reference)
            named[session["id"]] = None
            doomed |= {member["id"]: member for member in _with_parts(db, session, only=only)}
        sessions = list(doomed.values())
        if not yes:
            console.tell(f"  {_name(session)}" for session in sessions)
            confirm_removal(console, sessions, purge=purge)
        removed = _remove(console, db, list(doomed), purge=purge)
    messages = sum(doomed[i]["message_count"] or 0 for i in removed if i in doomed)
    report_removal(console, removed, messages, purged=purge, undo=list(named))


def confirm_removal(console: Console, sessions: Sequence[Record], *, purge: bool) -> None:
    """Ask whether *sessions* should go; end the command with exit code 1 unless they should."""
    what = f"{counted(len(sessions), 'session')} ({_messages_in(sessions)})"
    question = (
        f"Delete {what} for good? This cannot be undone." if purge else f"Move {what} to the trash?"
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
    """Print what was removed; *undo* are ids whose restoring brings all of it back."""
    if console.as_json:
        console.print_json({"deleted": list(session_ids), "messages": messages, "purged": purged})
        return
    what = f"{counted(len(session_ids), 'session')} ({counted(messages, 'message')})"
    if purged:
        console.print(f"Deleted {what} for good.")
    else:
        many = len(undo) > _IDS_SHOWN
        undoing = "hermes sessions restore ID..." if many else command_on("restore", *undo)
        console.print(f"Moved {what} to the trash. To undo: {undoing}")


def _messages_in(sessions: Iterable[Record]) -> str:
    return counted(sum(session["message_count"] or 0 for session in sessions), "message")


def _with_parts(db: SessionDB, session: Record, *, only: bool) -> list[Record]:
    """Return the sessions that go with *session*: its chain, and subagents of any of them."""
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
    with console.progress("Deleting", len(ids)) as progress:
        for session_id in ids:
            db.delete_session(session_id, files)
            progress.advance()
    return list(ids)


def _name(session: Record) -> str:
    title = one_line(session["title"] or "")
    return f"{one_line(session['id'])}{'  ' if title else ''}{title}"
