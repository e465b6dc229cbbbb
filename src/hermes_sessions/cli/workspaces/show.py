"""``hermes workspaces show``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.session_table import session_table
from hermes_sessions.cli.render.workspaces import workspace_lines
from hermes_sessions.cli.selection import find_workspace
from hermes_sessions.cli.store import open_for_reading

_SHOWN = 10


@click.command(short_help="Show one workspace and its latest sessions.")
@click.argument("name", metavar="[NAME]", default=".")
@pass_console
def show(console: Console, *, name: str) -> None:
    """Show one workspace, by default that of the current directory, and its latest sessions."""
    with open_for_reading(console) as db:
        workspace = find_workspace(db, name)
        sessions = db.list_sessions_rich(
            workspace=workspace["id"], limit=_SHOWN, compact_rows=True, include_archived=True
        )
    if console.as_json:
        from hermes_sessions.cli.render.json_output import sessions_document

        console.print_json({"workspace": workspace, **sessions_document(sessions)})
        return
    now, style = console.clock(), console.style
    console.print(workspace_lines(workspace, now=now, style=style))
    if sessions:
        console.print(["", *session_table(sessions, now=now, style=style)])
