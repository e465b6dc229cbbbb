"""``hermes sessions stats``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import speaks_to_console
from hermes_sessions.cli.render.statistics import sizes_lines, statistics
from hermes_sessions.cli.store import open_for_reading


@click.command(short_help="Count sessions and messages.")
@click.option(
    "--sizes", is_flag=True, help="Show what takes up the space, too; looks at every message."
)
@speaks_to_console
def stats(console: Console, *, sizes: bool) -> None:
    """Count sessions and messages, by source.

    Shows the size of the store, too, and whether its search index holds everything.
    """
    with open_for_reading(console) as db:
        counted = db.get_stats()
        index = db.search_index_status()
        measured = db.get_sizes() if sizes else None
    if console.as_json:
        state = {name: index[name] for name in ("complete", "pending")}
        more = {"sizes": measured} if measured else {}
        console.print_json({**counted, "search_index": state, **more})
    else:
        console.print(statistics(counted, index))
        if measured:
            console.print(sizes_lines(measured))
