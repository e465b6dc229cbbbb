"""``hermes workspaces move``."""

from __future__ import annotations

from pathlib import Path

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.selection import current_directory, find_workspace
from hermes_sessions.cli.store import open_for_writing
from hermes_sessions.errors import NotFound


@click.command(short_help="Say where the directory of a project is now.")
@click.argument("name", metavar="NAME")
@click.argument("directory", metavar="[DIRECTORY]", required=False)
@pass_console
def move(console: Console, *, name: str, directory: str | None) -> None:
    """Say that the project of a workspace is now in DIRECTORY, by default the current one.

    This is needed only for a directory without a git repository, and if a repository got another
    remote while it was moved; all others are recognised. No session is changed.
    """
    place = Path(current_directory() if directory is None else directory)
    if not place.is_dir():
        raise NotFound(f"There is no directory {directory!r}. Move the project there first.")
    with open_for_writing(console) as db:
        workspace = find_workspace(db, name)
        db.move_workspace(workspace["id"], place)
        [moved] = db.find_workspaces(workspace["id"])
    if console.as_json:
        console.print_json({"workspace": moved})
    else:
        console.print(f"{one_line(moved['name'])} is now at {one_line(moved['path'] or '')}")
