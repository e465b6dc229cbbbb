"""``hermes sessions stats``."""

from __future__ import annotations

from typing import Final

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.store import (
    sizes_lines,
    space_lines,
    statistics,
    usage_lines,
    used_by_all,
)
from hermes_sessions.cli.store import open_for_reading

#: The time limit of --space.
SECONDS: Final = 20.0


@click.command(short_help="Count sessions and messages.")
@click.option("--sizes", is_flag=True, help="Also show what takes up space; reads every message.")
@click.option(
    "--space",
    is_flag=True,
    help=f"Also show space by class, source, table and index; takes at most {SECONDS:.0f} seconds.",
)
@click.option(
    "--full", is_flag=True, help="With --space: measure the whole store, however long it takes."
)
@click.option("--usage", is_flag=True, help="Also show tokens and cost; reads every session.")
@pass_console
def stats(console: Console, *, sizes: bool, space: bool, full: bool, usage: bool) -> None:
    """Count sessions and messages by source.

    Also shows the size of the store and whether the search index is complete.
    """
    if full and not space:
        raise click.UsageError("--full requires --space.")
    with open_for_reading(console) as db:
        counted = db.get_stats()
        index = db.search_index_status()
        tags, workspaces = db.list_tags(), len(db.list_workspaces())
        measured = db.get_sizes() if sizes else None
        taken = db.get_space(within=None if full else SECONDS) if space else None
        used = used_by_all(db.get_insights(0)) if usage else None
    if console.as_json:
        state = {name: index[name] for name in ("complete", "pending")}
        more: dict[str, object] = {"sizes": measured} if measured else {}
        if taken:
            more["space"] = taken
        if used is not None:
            more["usage"] = used
        labels = {"tags": tags, "workspaces": workspaces}
        console.print_json({**counted, "search_index": state, **labels, **more})
    else:
        console.print(statistics(counted, index, tags=tags, workspaces=workspaces))
        if measured:
            console.print(sizes_lines(measured))
        if taken:
            console.print(space_lines(taken))
        if used is not None:
            console.print(usage_lines(used))
