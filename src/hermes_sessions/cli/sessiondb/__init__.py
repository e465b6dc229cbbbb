"""``hermes sessiondb``: inspect, verify and migrate the database."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command

_HERE = "hermes_sessions.cli.sessiondb"

COMMANDS = {
    "status": LazyCommand(
        f"{_HERE}.status:status", "Show the location, size and state of a store."
    ),
    "migrate": LazyCommand(
        f"{_HERE}.migrate:migrate", "Copy all sessions to another database and verify them."
    ),
    "verify": LazyCommand(f"{_HERE}.verify:verify", "Compare two stores."),
    "upgrade": LazyCommand(f"{_HERE}.upgrade:upgrade", "Upgrade the tables of a store."),
    "export-hermes": LazyCommand(
        f"{_HERE}.export_hermes:export_hermes", "Write a file that hermes-agent can open."
    ),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def sessiondb(context: click.Context) -> None:
    """Inspect, verify and migrate the database.

    A STORE is the path of a SQLite file, or a URL: sqlite:///file.db,
    postgresql://user@host/database, mysql://user@host/database.
    """
    show_help_without_command(context)
