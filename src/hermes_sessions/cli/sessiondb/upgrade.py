"""``hermes sessiondb upgrade``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.store import open_store_at, show_warnings
from hermes_sessions.errors import StoreError


@click.command(short_help="Upgrade the tables of a store.")
@click.argument("store", metavar="[STORE]", required=False)
@click.option(
    "--finish",
    is_flag=True,
    help="Also remove what only older versions need; stop or update these first.",
)
@pass_console
def upgrade(console: Console, *, store: str | None, finish: bool) -> None:
    """Upgrade the tables of a store.

    Without STORE, upgrades the configured one. Opening a store for writing does the same; this
    command lets you choose the time. Steps that break older versions require --finish.
    """
    show_warnings(console)
    before = _waiting(store)
    with open_store_at(store, read_only=False) as provider:
        taken = [name for name in provider.steps().taken if name in before]
        finished = list(provider.finish_steps()) if finish else []
        left = list(provider.steps().finishing)
    if console.as_json:
        console.print_json({"taken": taken, "finished": finished, "finishing": left})
        return
    console.print(f"Applied step {name}." for name in [*taken, *finished])
    if not taken and not finished:
        console.print("Nothing to finish." if finish else "The tables are up to date.")
    if left:
        console.print(f"Steps that require --finish: {', '.join(left)}")


def _waiting(store: str | None) -> tuple[str, ...]:
    """Return the steps that opening the store will apply; none if it cannot be read yet."""
    try:
        with open_store_at(store, read_only=True) as provider:
            return provider.steps().waiting
    except StoreError:
        return ()
