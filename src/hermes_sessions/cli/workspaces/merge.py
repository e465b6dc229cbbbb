"""``hermes workspaces merge`` and ``separate``."""

from __future__ import annotations

from shlex import quote

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.selection import find_workspace
from hermes_sessions.cli.store import open_for_writing


@click.command(short_help="Make workspaces one.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--into", metavar="NAME", required=True, help="The workspace that they become.")
@pass_console
def merge(console: Console, *, names: tuple[str, ...], into: str) -> None:
    """Make workspaces part of another one, which then has all their sessions.

    No session is changed, and "hermes workspaces separate" undoes it. Later sessions in their
    directories belong to the merged workspace, too.
    """
    with open_for_writing(console) as db:
        target = find_workspace(db, into)
        found = [find_workspace(db, name) for name in names]
        for workspace in {one["id"]: one for one in found}.values():
            db.merge_workspaces(workspace["id"], target["id"])
        [merged] = db.find_workspaces(target["id"])
    if console.as_json:
        console.print_json({"workspace": merged})
        return
    sessions = counted(merged["sessions"], "session")
    console.print(f"{one_line(merged['name'])} has {sessions} now.")
    undo = quote(one_line(merged["id"]))
    console.print(f"To undo this, run: hermes workspaces separate {undo}")


@click.command(short_help="Undo the merges into a workspace.")
@click.argument("name", metavar="NAME")
@pass_console
def separate(console: Console, *, name: str) -> None:
    """Undo every merge into a workspace: each becomes a workspace of its own again."""
    with open_for_writing(console) as db:
        workspace = find_workspace(db, name)
        db.separate_workspaces(workspace["id"])
    merged = workspace["merged"]
    if console.as_json:
        console.print_json({"separated": [one["id"] for one in merged]})
    elif not merged:
        console.print(f"Nothing was merged into {one_line(workspace['name'])}.")
    else:
        names = ", ".join(one_line(one["name"]) for one in merged)
        console.print(f"Separated from {one_line(workspace['name'])}: {names}")
