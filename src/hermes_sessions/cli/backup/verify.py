"""``hermes backup verify``."""

from __future__ import annotations

from typing import Any

import click

from hermes_sessions.cli.backup.common import (
    as_json,
    backup_folder,
    contents,
    directory_option,
    progress_callback,
)
from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.errors import BackupRefused
from hermes_sessions.storage.care.backups import list_backups, verify_backup
from hermes_sessions.storage.care.backups.backup_directory import find_backup


@click.command(short_help="Read backups in full and verify their contents.")
@click.argument("backups", metavar="[BACKUP]...", nargs=-1)
@directory_option
@pass_console
def verify(console: Console, *, backups: tuple[str, ...], directory: str | None) -> None:
    """Verify the named backups, or all: every byte, row count and session checksum.

    Changes nothing. Exits with 1 if a backup cannot be restored, or if there are none.
    """
    where = backup_folder(directory)
    paths = [find_backup(name, where) for name in backups]
    if not backups:
        paths = [backup.path for backup in list_backups(where)]
    results: list[dict[str, Any]] = []
    for path in paths:
        try:
            with progress_callback(console, "Verifying") as on_progress:
                found = verify_backup(path, lambda done, total: on_progress("", done, total))
        except BackupRefused as error:
            failed = {"name": path.name, "path": str(path), "problem": str(error)}
            results.append({**failed, "verified": False})
            if not console.as_json:
                console.print(one_line(str(error)))
            continue
        results.append({**as_json(found), "verified": True})
        if not console.as_json:
            console.print(f"{one_line(path.name)}: verified, {contents(found)}")
    if console.as_json:
        console.print_json({"backups": results})
    elif not paths:
        console.print(f"There are no backups in {where}. To create one, run: hermes backup create")
    if not paths or not all(result["verified"] for result in results):
        raise click.exceptions.Exit(1)
