"""``hermes sessions optimize``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted, size
from hermes_sessions.cli.store import open_for_writing


@click.command(short_help="Bring the search index up to date.")
@click.option("--rebuild", is_flag=True, help="Make the index anew from the messages.")
@pass_console
def optimize(console: Console, *, rebuild: bool) -> None:
    """Bring the search index up to date, merge its pieces and give unused space back.

    Works in short steps while other programs use the store. What an interrupted run has done stays
    done. Searches answer meanwhile, and say so when they cannot see everything yet.
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
        console.print(f"The search index was made anew: {indexed} (messages and titles).")
    elif done["indexed"]:
        console.print(f"Indexed what was waiting: {indexed} (messages and titles).")
    else:
        console.print("The search index was up to date.")
    if pending:
        console.print(f"{counted(pending, 'message')} came meanwhile.")
    if freed:
        console.print(f"Gave {size(freed)} back.")
