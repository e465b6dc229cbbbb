"""``hermes sessiondb``: the database itself."""

from __future__ import annotations

import click

from hermes_sessions.cli.lazy_group import LazyCommand, LazyGroup, show_help_without_command

# The ``hermes sessiondb`` group: which commands there are, and where they live.


_HERE = "hermes_sessions.cli.sessiondb"


COMMANDS = {
    "status": LazyCommand(f"{_HERE}.status:status", "Show the store, its size and its state."),
    "migrate": LazyCommand(
        f"{_HERE}.migrate:migrate", "Copy all sessions to another database, and prove it."
    ),
    "verify": LazyCommand(f"{_HERE}.verify:verify", "Compare two stores."),
    "upgrade": LazyCommand(f"{_HERE}.upgrade:upgrade", "Bring the tables up to date."),
}


@click.group(cls=LazyGroup, lazy_commands=COMMANDS, invoke_without_command=True)
@click.pass_context
def sessiondb(context: click.Context) -> None:
    """Inspect, verify and migrate the database.

    A STORE is the path of a SQLite file, or a URL: sqlite:///file.db,
    postgresql://user@host/database, mysql://user@host/database.
    """
    show_help_without_command(context)
