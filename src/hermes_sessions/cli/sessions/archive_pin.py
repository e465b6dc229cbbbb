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


@click.command(short_help="Take sessions out of the list; nothing is deleted.")
@_sessions_argument
@pass_console
def archive(console: Console, *, references: tuple[str, ...]) -> None:
    """Take sessions out of the list; nothing is deleted, and search finds them.

    A conversation that was continued under new ids is archived as a whole. "hermes sessions list
    --archived" shows what is archived. Nothing is changed when any ID is unknown.
    """
    _mark(console, references, "Archived", SessionDB.set_session_archived, wanted=True)


@click.command(short_help="Put archived sessions back into the list.")
@_sessions_argument
@pass_console
def unarchive(console: Console, *, references: tuple[str, ...]) -> None:
    """Put archived sessions back into the list.

    Nothing is changed when any ID is unknown.
    """
    _mark(console, references, "Unarchived", SessionDB.set_session_archived, wanted=False)


@click.command(short_help="Keep sessions from ever being pruned.")
@_sessions_argument
@pass_console
def pin(console: Console, *, references: tuple[str, ...]) -> None:
    """Keep sessions from ever being pruned.

    What belongs to the same conversation stays with them. "hermes sessions list --pinned" shows
    what is pinned. Nothing is changed when any ID is unknown.
    """
    _mark(console, references, "Pinned", SessionDB.set_session_pinned, wanted=True)


@click.command(short_help="Let pinned sessions be pruned again.")
@_sessions_argument
@pass_console
def unpin(console: Console, *, references: tuple[str, ...]) -> None:
    """Let pinned sessions be pruned again.

    Nothing is changed when any ID is unknown.
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
                raise NotFound(f"Session {session['id']} was deleted meanwhile.")
    if console.as_json:
        console.print_json({done.lower(): [session["id"] for session in sessions]})
        return
    for session in sessions:
        title = one_line(session["title"] or "")
        console.print(f"{done} {one_line(session['id'])}{'  ' if title else ''}{title}")
