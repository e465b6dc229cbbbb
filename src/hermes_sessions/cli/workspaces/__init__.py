"""The ``hermes workspaces`` group."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command

_HERE = "hermes_sessions.cli.workspaces"

COMMANDS = {
    "list": LazyCommand(f"{_HERE}.list:list_workspaces", "List workspaces and their sessions."),
    "show": LazyCommand(f"{_HERE}.show:show", "Show one workspace and its latest sessions."),
    "move": LazyCommand(f"{_HERE}.move:move", "Say where the directory of a project is now."),
    "rename": LazyCommand(f"{_HERE}.rename:rename", "Give a workspace another name."),
    "merge": LazyCommand(f"{_HERE}.merge:merge", "Make workspaces one."),
    "separate": LazyCommand(f"{_HERE}.merge:separate", "Undo the merges into a workspace."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def workspaces(context: click.Context) -> None:
    """List and correct the projects that sessions belong to.

    A chat belongs to the project of the directory it starts in: the git repository by its remote or
    first commit, else the directory. NAME is the name of a workspace, its id, or a directory.
    """
    show_help_without_command(context)
