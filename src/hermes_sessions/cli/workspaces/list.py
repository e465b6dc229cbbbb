"""``hermes workspaces list``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.workspaces import workspace_table
from hermes_sessions.cli.store import open_for_reading


@click.command("list", short_help="List workspaces and their sessions.")
@pass_console
def list_workspaces(console: Console) -> None:
    """List the workspaces that have sessions, most recently active first."""
    with open_for_reading(console) as db:
        found = db.list_workspaces()
    if console.as_json:
        console.print_json({"workspaces": found})
    elif not found:
        console.print("No workspaces yet. A chat belongs to the directory it starts in: hermes")
    else:
        console.print(workspace_table(found, now=console.clock(), style=console.style))
