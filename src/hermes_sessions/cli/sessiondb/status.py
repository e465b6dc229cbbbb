"""``hermes sessiondb status``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.store import database_lines
from hermes_sessions.cli.store import open_store_at, show_warnings
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.transfer.copy_ledger import identity


@click.command(short_help="Show the location, size and state of a store.")
@click.argument("store", metavar="[STORE]", required=False)
@pass_console
def status(console: Console, *, store: str | None) -> None:
    """Show the location, size and state of a store, and pending work.

    Without STORE, shows the configured one. Changes nothing.
    """
    show_warnings(console)
    with open_store_at(store, read_only=True) as provider:
        db = SessionDB(provider=provider, clock=console.clock)
        index = db.search_index_status()
        steps = provider.steps()
        document = {
            "provider": provider.name,
            "location": identity(provider),
            "details": provider.describe(),
            **{name: count for name, count in db.get_stats().items() if name in _COUNTS},
            "search_index": {name: index[name] for name in ("complete", "pending")},
            "schema": {
                "taken": steps.taken,
                "waiting": steps.waiting,
                "finishing": steps.finishing,
            },
        }
    if console.as_json:
        console.print_json(document)
    else:
        console.print(database_lines(document))


_COUNTS = ("sessions", "messages", "archived", "trashed", "size_bytes")
