"""``hermes backup create``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from hermes_sessions.cli.backup.common import (
    as_json,
    configured_place,
    contents,
    place,
    progress_callback,
)
from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted, size
from hermes_sessions.cli.store import open_store_at, show_warnings
from hermes_sessions.config import load_settings
from hermes_sessions.errors import StoreMissing
from hermes_sessions.storage.care.backups import (
    Backup,
    BackupRule,
    Pruned,
    create_backup,
    prune_backups,
)
from hermes_sessions.storage.provider import SessionDBProvider


@click.command(short_help="Back the store up while it is used.")
@click.argument("store", metavar="[STORE]", required=False)
@click.option("--to", "directory", metavar="DIR", help="Where to; without it, backups.directory.")
@click.option(
    "--portable",
    is_flag=True,
    help="In the form that restores on every database; servers always have it.",
)
@click.option("--no-prune", is_flag=True, help="Leave old backups alone.")
@pass_console
def create(
    console: Console, *, store: str | None, directory: str | None, portable: bool, no_prune: bool
) -> None:
    """Back up the configured store, or the one at a path or URL.

    Nobody has to stop for it, and nobody waits. The backup is one state of the store; it is read
    back and compared before it gets its name. Then old ones are removed, as backups.keep,
    backups.max_age_days and backups.max_bytes say.
    """
    show_warnings(console)
    where = place(directory)
    with (
        _opened(store) as provider,
        progress_callback(console, "Backing up") as on_progress,
    ):
        made = create_backup(
            provider, where, portable=portable, on_progress=on_progress, now=console.clock
        )
    settings = load_settings().backups
    rule = BackupRule(settings.keep, settings.max_age_days, settings.max_bytes)
    pruned = Pruned([], []) if no_prune else prune_backups(where, rule, now=console.clock)
    if console.as_json:
        removed = [going.backup.name for going in pruned.gone]
        console.print_json({"backup": as_json(made), "removed": removed})
        return
    console.print(f"{made.path}: {contents(made)}, {size(made.size)}")
    _tell_what_is_missing(console, made)
    if pruned.gone:
        console.print(f"Removed {counted(len(pruned.gone), 'old backup')}.")


@contextmanager
def _opened(store: str | None) -> Iterator[SessionDBProvider]:
    with ExitStack() as stack:
        try:
            provider = stack.enter_context(open_store_at(store, read_only=True))
        except StoreMissing as error:
            # A URL may hold a password.
            named = configured_place() if store is None else store.partition("://")[0]
            raise StoreMissing(
                f"There is no store yet in {named}, so there is nothing to back up; nothing was "
                f"made. The first conversation makes one."
            ) from error
        yield provider


def _tell_what_is_missing(console: Console, made: Backup) -> None:
    for table, rows in made.left_out.items():
        console.tell(
            f"Warning: {counted(rows, 'row')} of {table} belong to no session and are not in this "
            f"backup; without --portable they are."
        )
    if made.unsummed:
        console.tell(
            f"Warning: {counted(made.unsummed, 'session')} hold values that only SQLite keeps; "
            f"they are in this backup, without a checksum."
        )
