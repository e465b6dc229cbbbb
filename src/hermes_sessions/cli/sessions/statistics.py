"""``hermes sessions stats``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import speaks_to_console
from hermes_sessions.cli.render.statistics import statistics
from hermes_sessions.cli.store import open_for_reading


@click.command(short_help="Count sessions and messages.")
@speaks_to_console
def stats(console: Console) -> None:
    """Count sessions and messages, by source.

    Shows the size of the store, too, and whether its search index holds everything.
    """
    with open_for_reading(console) as db:
        counted = db.get_stats()
        index = db.search_index_status()
    if console.as_json:
        state = {name: index[name] for name in ("complete", "pending")}
        console.print_json({**counted, "search_index": state})
    else:
        console.print(statistics(counted, index))
