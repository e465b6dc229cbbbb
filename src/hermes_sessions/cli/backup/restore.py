"""``hermes backup restore``."""

from __future__ import annotations

import os

import click

from hermes_sessions.cli.backup.common import (
    as_json,
    backup_folder,
    configured_location,
    contents,
    directory_option,
    progress_callback,
)
from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console, yes_option
from hermes_sessions.cli.render.humanize import date_and_time
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.store import show_warnings
from hermes_sessions.config import load_settings
from hermes_sessions.storage.care.backups import Backup, RestoreResult, restore_backup
from hermes_sessions.storage.care.backups.backup_directory import find_backup, read_manifest
from hermes_sessions.storage.provider_registry import open_provider
from hermes_sessions.storage.transfer.copy_ledger import identity_of


@click.command(short_help="Replace the store with a backup.")
@click.argument("backup", metavar="BACKUP")
@click.option(
    "--into",
    metavar="STORE",
    help="Restore to this SQLite file or URL instead of the configured store.",
)
@directory_option
@yes_option
@pass_console
def restore(
    console: Console, *, backup: str, into: str | None, directory: str | None, yes: bool
) -> None:
    """Verify a backup, then restore it.

    No other program may use the store meanwhile; the error names the ones that do. The replaced
    SQLite file is kept beside the new one. A store on a server must be empty.
    """
    show_warnings(console)
    path = find_backup(backup, backup_folder(directory), is_own=_is_of_configured_store)
    facts = read_manifest(path)
    where = into or configured_location()
    if not yes and not console.confirm(
        f"Replace the contents of {where} with {path.name} ({contents(facts)}, created "
        f"{date_and_time(facts.created)}, from {one_line(facts.store)})?"
    ):
        console.tell("Nothing was changed.")
        raise click.exceptions.Exit(1)
    with progress_callback(console, "Restoring") as on_progress:
        target = into if into is not None else load_settings().sessiondb.store_file
        if target is not None:
            done = restore_backup(path, target, on_progress=on_progress, now=console.clock)
        else:
            provider = open_provider(None).provider
            try:
                done = restore_backup(path, provider, on_progress=on_progress, now=console.clock)
            finally:
                provider.close()
    _show(console, done)


def _is_of_configured_store(backup: Backup) -> bool:
    """Return whether a backup is of the configured store, which need not exist.

    For a server, compares the provider only.
    """
    settings = load_settings().sessiondb
    if settings.store_file is None:
        return backup.provider == settings.provider
    path = os.path.realpath(settings.store_file)
    return backup.store == identity_of(settings.provider, path, None)


def _show(console: Console, done: RestoreResult) -> None:
    if console.as_json:
        console.print_json(
            {
                "backup": as_json(done.backup),
                "store": done.store,
                "kept": str(done.kept) if done.kept is not None else None,
            }
        )
        return
    console.print(f"Restored {contents(done.backup)} to {done.store}.")
    if done.kept is not None:
        console.print(f"The replaced file is kept as {done.kept}")
