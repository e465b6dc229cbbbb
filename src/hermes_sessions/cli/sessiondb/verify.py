"""``hermes sessiondb verify``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.store import open_store_at
from hermes_sessions.storage.transfer.comparison import compare_stores
from hermes_sessions.storage.transfer.copy_ledger import identity


@click.command(short_help="Compare two stores.")
@click.argument("first", metavar="STORE")
@click.argument("second", metavar="STORE")
@pass_console
def verify(console: Console, *, first: str, second: str) -> None:
    """Compare two stores: all sessions with their messages, including the trash, and other data
    such as holds and erasure receipts.

    Changes neither. If they differ, lists the differences and exits with 1.
    """
    with (
        open_store_at(first, read_only=True) as left,
        open_store_at(second, read_only=True) as right,
    ):
        names = identity(left), identity(right)
        with console.progress("Comparing", 1) as progress:
            found = compare_stores(left, right, progress.reach)
    same = f"{counted(found.sessions, 'session')} with {counted(found.messages, 'message')}"
    if console.as_json:
        console.print_json(
            {
                "first": names[0],
                "second": names[1],
                "same": not found.differences,
                "sessions": found.sessions,
                "messages": found.messages,
                "beside": dict(sorted(found.beside.items())),
                "differences": [each._asdict() for each in found.differences],
            }
        )
    elif found.differences:
        console.print(f"{one_line(each.id)}: {each.what}" for each in found.differences)
        console.print(
            f"{counted(len(found.differences), 'difference')} between {names[0]} and {names[1]}; "
            f"{same} are identical."
        )
    else:
        console.print(f"Identical: {same}.")
    if found.differences:
        raise click.exceptions.Exit(1)
