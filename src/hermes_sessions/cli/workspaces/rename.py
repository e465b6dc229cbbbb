"""``hermes workspaces rename``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.selection import find_workspace
from hermes_sessions.cli.store import open_for_writing


@click.command(short_help="Give a workspace another name.")
@click.argument("name", metavar="NAME")
@click.argument("words", metavar="NEW...", nargs=-1, required=True)
@pass_console
def rename(console: Console, *, name: str, words: tuple[str, ...]) -> None:
    """Give a workspace another name, of up to 100 characters. No directory is renamed."""
    with open_for_writing(console) as db:
        workspace = find_workspace(db, name)
        db.rename_workspace(workspace["id"], " ".join(words))
        [renamed] = db.find_workspaces(workspace["id"])
    if console.as_json:
        console.print_json({"workspace": renamed})
    else:
        was, now = one_line(workspace["name"]), one_line(renamed["name"])
        console.print(f"Renamed the workspace {was} to: {now}")
