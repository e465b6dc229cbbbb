"""``hermes backup list``."""

from __future__ import annotations

import click

from hermes_sessions.cli.backup.common import as_json, backup_folder, contents, directory_option
from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import date_and_time, size
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.storage.care.backups import Backup, list_backups


@click.command("list", short_help="List the backups.")
@directory_option
@pass_console
def list_command(console: Console, *, directory: str | None) -> None:
    """List the backups, newest first, with their state.

    complete: its header, manifest and end are intact. damaged: they are not. newer: it was made by
    a later version. Only hermes backup verify reads whole backups.
    """
    where = backup_folder(directory)
    found = list_backups(where)
    if console.as_json:
        backups = [as_json(backup) for backup in found]
        console.print_json({"directory": str(where), "backups": backups})
        return
    if not found:
        console.print(f"There are no backups in {where}. To create one, run: hermes backup create")
    is_mixed = len({backup.store for backup in found if backup.state == "complete"}) > 1
    for backup in found:
        console.print(_line(backup, store=backup.store if is_mixed else backup.provider))


def _line(backup: Backup, store: str) -> str:
    when = date_and_time(backup.created)
    start = f"{one_line(backup.name)}  {when}  {size(backup.size):>9}  {backup.state}"
    if backup.state != "complete":
        return start
    reason = f", {backup.reason}" if backup.reason != "asked" else ""
    return f"{start}  {backup.kind} of {one_line(store)}{reason}: {contents(backup)}"
