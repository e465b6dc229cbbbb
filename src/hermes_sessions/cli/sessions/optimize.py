"""``hermes sessions optimize``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted, size
from hermes_sessions.cli.store import open_for_writing


@click.command(short_help="Update the search index and free unused space.")
@click.option("--rebuild", is_flag=True, help="Rebuild the index from the messages.")
@pass_console
def optimize(console: Console, *, rebuild: bool) -> None:
    """Update the search index, merge its segments, and free unused space.

    Works in short steps while other programs use the store, and keeps its progress when it is
    interrupted. Searches keep working, and say so while they cannot see everything yet.
    """
    with open_for_writing(console) as db:
        with console.progress("Indexing", 0) as progress:
            done = db.optimize_search(rebuild=rebuild, on_progress=progress.reach)
        freed = db.trim()
        pending = db.search_index_status()["pending"]
    if console.as_json:
        console.print_json({**done, "pending": pending, "freed_bytes": freed})
        return
    indexed = f"{done['indexed']} {'entry' if done['indexed'] == 1 else 'entries'}"
    if done["rebuilt"]:
        console.print(f"Rebuilt the search index: {indexed} (messages and titles).")
    elif done["indexed"]:
        console.print(f"Indexed {indexed} (messages and titles).")
    else:
        console.print("The search index is up to date.")
    if pending:
        console.print(f"{counted(pending, 'message')} arrived in the meantime.")
    if freed:
        console.print(f"Freed {size(freed)}.")
