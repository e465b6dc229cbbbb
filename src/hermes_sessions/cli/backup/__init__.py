"""``hermes backup``: back up and restore the store."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command

_HERE = "hermes_sessions.cli.backup"

COMMANDS = {
    "create": LazyCommand(f"{_HERE}.create:create", "Back up the store while it is in use."),
    "list": LazyCommand(f"{_HERE}.list:list_command", "List the backups."),
    "verify": LazyCommand(
        f"{_HERE}.verify:verify", "Read backups in full and verify their contents."
    ),
    "restore": LazyCommand(f"{_HERE}.restore:restore", "Replace the store with a backup."),
    "prune": LazyCommand(f"{_HERE}.prune:prune", "Remove old backups."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def backup(context: click.Context) -> None:
    """Back up and restore the store.

    Backups are in backups.directory (config.yaml), by default HERMES_HOME/backups. A BACKUP is
    a name from hermes backup list, the path of a file, or latest.
    """
    show_help_without_command(context)
