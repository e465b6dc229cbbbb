"""``hermes sessions hold``, ``unhold`` and ``holds``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.deletions import session_name
from hermes_sessions.cli.render.retention import holds_lines
from hermes_sessions.cli.session_lookup import find_session
from hermes_sessions.cli.store import open_for_reading, open_for_writing
from hermes_sessions.errors import NotFound
from hermes_sessions.storage.sessiondb import SessionDB

_sessions_argument = click.argument("references", metavar="ID...", nargs=-1, required=True)


@click.command(short_help="Protect conversations from any deletion.")
@_sessions_argument
@click.option(
    "--reason", metavar="TEXT", required=True, help="Why it is on hold; shown with the hold."
)
@pass_console
def hold(console: Console, *, references: tuple[str, ...], reason: str) -> None:
    """Protect conversations from any deletion: by retention limits, by prune, or by name.

    A pin only protects against pruning; a hold protects against every deletion until you lift it
    with "hermes sessions unhold". If any ID is unknown, nothing is changed.
    """
    with open_for_writing(console) as db:
        sessions = _found(db, references)
        for session in sessions:
            if not db.hold_session(session["id"], reason):
                raise NotFound(f"Session {session['id']} has just been deleted.")
    _report(console, "held", "On hold", sessions)


@click.command(short_help="Lift the holds on conversations.")
@_sessions_argument
@pass_console
def unhold(console: Console, *, references: tuple[str, ...]) -> None:
    """Lift the holds on conversations.

    If any ID is unknown, nothing is changed.
    """
    with open_for_writing(console) as db:
        sessions = _found(db, references)
        lifted = [session for session in sessions if db.lift_hold(session["id"])]
    if not lifted and not console.as_json:
        console.print("Nothing was on hold.")
    _report(console, "lifted", "Hold lifted", lifted)


@click.command(short_help="List the conversations on hold, and why.")
@pass_console
def holds(console: Console) -> None:
    """List the conversations on hold, and why."""
    with open_for_reading(console) as db:
        found = db.list_holds()
    if console.as_json:
        console.print_json({"holds": found})
    else:
        console.print(holds_lines(found))


def _found(db: SessionDB, references: tuple[str, ...]) -> list[Mapping[str, Any]]:
    found = [find_session(db, reference) for reference in references]
    return list({session["id"]: session for session in found}.values())


def _report(console: Console, name: str, done: str, sessions: list[Mapping[str, Any]]) -> None:
    if console.as_json:
        console.print_json({name: [session["id"] for session in sessions]})
    else:
        console.print(f"{done}: {session_name(session)}" for session in sessions)
