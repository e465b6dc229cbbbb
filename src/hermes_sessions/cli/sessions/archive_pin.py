"""``hermes sessions archive``, ``unarchive``, ``pin`` and ``unpin``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.session_lookup import find_session
from hermes_sessions.cli.store import open_for_writing
from hermes_sessions.errors import NotFound
from hermes_sessions.storage.sessiondb import SessionDB

Record = Mapping[str, Any]

_sessions_argument = click.argument("references", metavar="ID...", nargs=-1, required=True)


@click.command(short_help="Hide sessions from the list without deleting them.")
@_sessions_argument
@pass_console
def archive(console: Console, *, references: tuple[str, ...]) -> None:
    """Hide sessions from the list without deleting them; search still finds them.

    A conversation that was continued under new ids is archived as a whole. If any ID is unknown,
    nothing is changed. To see archived sessions, run: hermes sessions list --archived
    """
    _mark(console, references, "Archived", SessionDB.set_session_archived, wanted=True)


@click.command(short_help="Show archived sessions in the list again.")
@_sessions_argument
@pass_console
def unarchive(console: Console, *, references: tuple[str, ...]) -> None:
    """Show archived sessions in the list again.

    If any ID is unknown, nothing is changed.
    """
    _mark(console, references, "Unarchived", SessionDB.set_session_archived, wanted=False)


@click.command(short_help="Protect sessions from pruning.")
@_sessions_argument
@pass_console
def pin(console: Console, *, references: tuple[str, ...]) -> None:
    """Protect sessions, and the rest of their conversation, from pruning.

    If any ID is unknown, nothing is changed. To see pinned sessions, run:
    hermes sessions list --pinned
    """
    _mark(console, references, "Pinned", SessionDB.set_session_pinned, wanted=True)


@click.command(short_help="Allow pinned sessions to be pruned again.")
@_sessions_argument
@pass_console
def unpin(console: Console, *, references: tuple[str, ...]) -> None:
    """Allow pinned sessions to be pruned again.

    If any ID is unknown, nothing is changed.
    """
    _mark(console, references, "Unpinned", SessionDB.set_session_pinned, wanted=False)


def _mark(
    console: Console,
    references: tuple[str, ...],
    done: str,
    verb: Callable[[SessionDB, str, bool], bool],
    *,
    wanted: bool,
) -> None:
    with open_for_writing(console) as db:
        found = [find_session(db, reference) for reference in references]
        sessions = list({session["id"]: session for session in found}.values())
        for session in sessions:
            if not verb(db, session["id"], wanted):
                raise NotFound(f"Session {session['id']} has just been deleted.")
    if console.as_json:
        console.print_json({done.lower(): [session["id"] for session in sessions]})
        return
    for session in sessions:
        title = one_line(session["title"] or "")
        console.print(f"{done} {one_line(session['id'])}{'  ' if title else ''}{title}")
