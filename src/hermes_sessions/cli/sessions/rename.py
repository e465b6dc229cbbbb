"""``hermes sessions rename``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.session_lookup import find_session
from hermes_sessions.cli.store import open_for_writing
from hermes_sessions.errors import NotFound


@click.command(short_help="Set or clear the title of a session.")
@click.argument("reference", metavar="ID")
@click.argument("words", metavar="TITLE...", nargs=-1, required=True)
@pass_console
def rename(console: Console, *, reference: str, words: tuple[str, ...]) -> None:
    """Set the title of a session; a blank title clears it.

    A title of several words needs no quotes. Titles are unique, at most 100 characters long, and
    stripped of control characters; the stored title is printed. Write -- before a title that
    starts with a dash.
    """
    with open_for_writing(console) as db:
        session_id = find_session(db, reference)["id"]
        if not db.set_session_title(session_id, " ".join(words)):
            raise NotFound(f"Session {session_id} has just been deleted.")
        title = db.get_session_title(session_id)
    if console.as_json:
        console.print_json({"id": session_id, "title": title})
    elif title is None:
        console.print(f"Cleared the title of session {one_line(session_id)}.")
    else:
        console.print(f"Renamed session {one_line(session_id)} to: {one_line(title)}")
