"""The ``hermes backup`` commands."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command

# The ``hermes backup`` group: which commands there are, and where they live.


_HERE = "hermes_sessions.cli.backup"


COMMANDS = {
    "create": LazyCommand(f"{_HERE}.create:create", "Back the store up while it is used."),
    "list": LazyCommand(f"{_HERE}.list:list_command", "List the backups."),
    "verify": LazyCommand(
        f"{_HERE}.verify:verify", "Read backups back and compare everything in them."
    ),
    "restore": LazyCommand(f"{_HERE}.restore:restore", "Put a backup in the store's place."),
    "prune": LazyCommand(f"{_HERE}.prune:prune", "Remove old backups."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def backup(context: click.Context) -> None:
    """Back up and restore the store.

    They are kept in backups.directory (config.yaml), by default HERMES_HOME/backups. A BACKUP is
    the name of one of them, the path of a file, or latest.
    """
    show_help_without_command(context)
