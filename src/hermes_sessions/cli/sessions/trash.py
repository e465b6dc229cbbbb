"""``hermes sessions trash`` and ``restore``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import number_of_days, pass_console, yes_option
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.session_lookup import find_in_trash
from hermes_sessions.cli.sessions.delete import (
    confirm_removal,
    leaving_no_trace,
    measured,
    report_removal,
)
from hermes_sessions.cli.store import open_for_reading, open_for_writing, transcripts_directory
from hermes_sessions.model.lineage import COMPRESSION
from hermes_sessions.storage.sessiondb import SessionDB

Record = Mapping[str, Any]

_DAY = 86400
#: So many days are lost at most when a time becomes an age and a time again.
_ROUNDING = 1e-9
_STEPS = 50


@click.command(short_help="List what is in the trash, or empty it.")
@click.option("--empty", is_flag=True, help="Delete what is in the trash for good.")
@click.option(
    "--older-than",
    metavar="DAYS",
    default="0",
    callback=number_of_days,
    help="With --empty: only what was deleted that many days ago.",
)
@yes_option
@pass_console
def trash(console: Console, *, empty: bool, older_than: float, yes: bool) -> None:
    """List deleted sessions, latest first, or delete them for good.

    Sessions stay in the trash until it is emptied: with --empty, or by a program that keeps house.
    """
    if empty:
        _empty(console, older_than, yes=yes)
        return
    with open_for_reading(console) as db:
        found = db.list_trash()
    if console.as_json:
        from hermes_sessions.cli.render.json_output import trashed_document

        console.print_json({"sessions": [trashed_document(session) for session in found]})
    elif not found:
        console.print("The trash is empty.")
    else:
        from hermes_sessions.cli.render.session_table import DELETED, session_table

        console.print(session_table(found, now=console.clock(), style=console.style, when=DELETED))


def _empty(console: Console, older_than: float, *, yes: bool) -> None:
    with open_for_writing(console) as db:
        cutoff = console.clock() - older_than * _DAY
        going = [session for session in db.list_trash() if session["trashed_at"] <= cutoff]
        if going and not yes:
            confirm_removal(console, measured(db, going, _reason), purge=True)
        with leaving_no_trace(console, db):
            _purge(console, db, sorted(session["trashed_at"] for session in going))
            going = [session for session in going if db.get_session(session["id"]) is None]
    if not going and not console.as_json:
        console.print("There is nothing to delete in the trash.")
        return
    ids = [session["id"] for session in going]
    messages = sum(session["message_count"] or 0 for session in going)
    report_removal(console, ids, messages, purged=True)


def _reason(_session: Record) -> str:
    return "in the trash"


def _purge(console: Console, db: SessionDB, times: Sequence[float]) -> None:
    """Delete what went to the trash at these times, oldest first, in some steps that show.

    Times and not an age decide, so that what is deleted while the question is on the screen stays.
    """
    if not times:
        return
    step = -(-len(times) // _STEPS)
    last_of_each_step = [*times[step - 1 :: step], times[-1]]
    with console.progress("Deleting", len(times)) as progress:
        for time in last_of_each_step:
            age = max((console.clock() - time) / _DAY - _ROUNDING, 0)
            progress.advance(db.purge_trash(age, transcripts_directory()))


@click.command(short_help="Bring sessions back from the trash.")
@click.argument("references", metavar="ID...", nargs=-1, required=True)
@pass_console
def restore(console: Console, *, references: tuple[str, ...]) -> None:
    """Bring sessions back from the trash.

    What was deleted together as one conversation comes back together. A title that another session
    took meanwhile gets the next number. Nothing is restored when any ID is unknown.
    """
    with open_for_writing(console) as db:
        trashed = db.list_trash()
        wanted: dict[str, None] = {}
        for reference in references:
            session = find_in_trash(trashed, reference)
            wanted |= dict.fromkeys(_chain_in_trash(trashed, session))
        restored = db.restore_sessions(wanted)
        titles = {session_id: db.get_session_title(session_id) for session_id in restored}
    if console.as_json:
        console.print_json({"restored": restored})
        return
    for session_id in restored:
        title = one_line(titles[session_id] or "")
        console.print(f"Restored {one_line(session_id)}{'  ' if title else ''}{title}")
    if len(restored) > 1:
        console.print(f"{counted(len(restored), 'session')} restored.")


def _chain_in_trash(trashed: Sequence[Record], session: Record) -> list[str]:
    """Return the ids in the trash that continue *session* or that it continues."""
    continuations = [s for s in trashed if s["edge_kind"] == COMPRESSION]
    chain = {session["id"]}
    while more := {
        end
        for link in continuations
        for end, other in (
            (link["id"], link["parent_session_id"]),
            (link["parent_session_id"], link["id"]),
        )
        if other in chain and end not in chain
    }:
        chain |= more
    return [s["id"] for s in trashed if s["id"] in chain]
