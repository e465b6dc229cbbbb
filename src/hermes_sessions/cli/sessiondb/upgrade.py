"""``hermes sessiondb upgrade``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.store import open_store_at, show_warnings
from hermes_sessions.errors import StoreError
from hermes_sessions.storage.provider import FileUpgrade


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

    A file of hermes-agent 0.15 to 0.19 (schema 12 to 22) becomes a store by this command, not by
    opening it, because hermes-agent may still use it. A verified backup stays beside it, and the
    report accounts for every table.
    """
    show_warnings(console)
    before = _waiting(store)
    with open_store_at(store, read_only=False, upgrade_later=True) as provider:
        steps = provider.steps()
        taken = [name for name in steps.taken if name in before]
        finished = list(provider.finish_steps()) if finish else []
        left = list(provider.steps().finishing)
    if console.as_json:
        document = {"taken": taken, "finished": finished, "finishing": left}
        console.print_json(document | _upgraded_document(steps.upgraded))
        return
    if steps.upgraded is not None:
        console.print(_upgraded_lines(steps.upgraded))
        return
    console.print(f"Applied step {name}." for name in [*taken, *finished])
    if not taken and not finished:
        console.print("Nothing to finish." if finish else "The tables are up to date.")
    if left:
        console.print(f"Steps that require --finish: {', '.join(left)}")


def _upgraded_document(done: FileUpgrade | None) -> dict[str, Any]:
    if done is None:
        return {"upgraded": None}
    tables = [table._asdict() for table in done.tables]
    return {"upgraded": {**done._asdict(), "tables": tables}}


def _upgraded_lines(done: FileUpgrade) -> Iterator[str]:
    yield one_line(
        f"Upgraded schema version {done.version}: {counted(done.sessions, 'session')} with "
        f"{counted(done.messages, 'message')}."
    )
    yield one_line(f"Backup: {done.backup}")
    for table in done.tables:
        rows = "" if table.rows is None else f" ({counted(table.rows, 'row')})"
        note = f": {table.note}" if table.note else ""
        yield one_line(f"{table.outcome.capitalize()}: {table.table}{rows}{note}")


def _waiting(store: str | None) -> tuple[str, ...]:
    """Return the steps that opening the store will apply; none if it cannot be read yet."""
    try:
        with open_store_at(store, read_only=True) as provider:
            return provider.steps().waiting
    except StoreError:
        return ()
