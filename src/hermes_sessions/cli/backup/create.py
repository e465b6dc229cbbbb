"""``hermes backup create``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from hermes_sessions.cli.backup.common import (
    as_json,
    backup_folder,
    configured_location,
    contents,
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


@click.command(short_help="Back up the store while it is in use.")
@click.argument("store", metavar="[STORE]", required=False)
@click.option(
    "--to", "directory", metavar="DIR", help="The target directory; default: backups.directory."
)
@click.option(
    "--portable",
    is_flag=True,
    help="Use the format that restores on every database; servers always use it.",
)
@click.option("--no-prune", is_flag=True, help="Keep old backups.")
@pass_console
def create(
    console: Console, *, store: str | None, directory: str | None, portable: bool, no_prune: bool
) -> None:
    """Back up the configured store, or the one at a path or URL.

    Other programs can keep using the store and do not wait. The backup is a consistent snapshot,
    and is read back and verified before it gets its name. Then old backups are removed according
    to backups.keep, backups.max_age_days and backups.max_bytes.
    """
    show_warnings(console)
    where = backup_folder(directory)
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
    _warn_of_gaps(console, made)
    if pruned.gone:
        console.print(f"Removed {counted(len(pruned.gone), 'old backup')}.")


@contextmanager
def _opened(store: str | None) -> Iterator[SessionDBProvider]:
    with ExitStack() as stack:
        try:
            provider = stack.enter_context(open_store_at(store, read_only=True))
        except StoreMissing as error:
            # Print the scheme only, because a URL may contain a password.
            named = configured_location() if store is None else store.partition("://")[0]
            raise StoreMissing(
                f"There is no store in {named} yet, so there is nothing to back up. "
                f"The first conversation creates it."
            ) from error
        yield provider


def _warn_of_gaps(console: Console, made: Backup) -> None:
    for table, rows in made.left_out.items():
        console.tell(
            f"Warning: this backup leaves out {counted(rows, 'row')} of {table} without a session. "
            f"To include them, omit --portable."
        )
    if made.unsummed:
        console.tell(
            f"Warning: no checksum for {counted(made.unsummed, 'session')} with values that only "
            f"SQLite can store; the backup includes them."
        )
