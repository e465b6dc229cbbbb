"""``hermes sessions trash``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import number_of_days, pass_console, yes_option
from hermes_sessions.cli.sessions.delete import (
    confirm_removal,
    leaving_no_trace,
    measured,
    report_removal,
)
from hermes_sessions.cli.store import open_for_reading, open_for_writing, transcripts_directory
from hermes_sessions.storage.sessiondb import SessionDB

Record = Mapping[str, Any]

_DAY = 86400
#: Converting a time to an age in days and back loses at most this many days.
_ROUNDING = 1e-9
#: In how many steps the trash is emptied, to show progress.
_STEPS = 50


@click.command(short_help="List or empty the trash.")
@click.option("--empty", is_flag=True, help="Permanently delete the sessions in the trash.")
@click.option(
    "--older-than",
    metavar="DAYS",
    default="0",
    callback=number_of_days,
    help="With --empty: only sessions deleted at least DAYS days ago.",
)
@yes_option
@pass_console
def trash(console: Console, *, empty: bool, older_than: float, yes: bool) -> None:
    """List deleted sessions, most recent first, or delete them permanently.

    Sessions stay in the trash until you empty it, or until maintenance removes them after
    sessions.trash_days.
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
        console.print("There is nothing in the trash to delete.")
        return
    ids = [session["id"] for session in going]
    messages = sum(session["message_count"] or 0 for session in going)
    report_removal(console, ids, messages, purged=True)


def _reason(_session: Record) -> str:
    return "in the trash"


def _purge(console: Console, db: SessionDB, times: Sequence[float]) -> None:
    """Delete the sessions trashed at these times, oldest first, showing progress.

    Times and not an age decide, so that a session trashed while the question was on the screen
    stays.
    """
    if not times:
        return
    step = -(-len(times) // _STEPS)
    last_of_each_step = [*times[step - 1 :: step], times[-1]]
    with console.progress("Deleting", len(times)) as progress:
        for time in last_of_each_step:
            age = max((console.clock() - time) / _DAY - _ROUNDING, 0)
            progress.advance(db.purge_trash(age, transcripts_directory()))
