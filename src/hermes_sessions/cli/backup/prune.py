"""``hermes backup prune``."""

from __future__ import annotations

from collections.abc import Callable

import click

from hermes_sessions.cli.backup.common import as_json, backup_folder, directory_option
from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import number_of_days, pass_console, whole_number, yes_option
from hermes_sessions.cli.render.humanize import counted, size
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.config import load_settings
from hermes_sessions.storage.care.backups import BackupRule, PruneResult, prune_backups

_Check = Callable[[click.Context, click.Parameter, str], float]


def _if_given(check: _Check) -> Callable[..., float | None]:
    def checked(
        context: click.Context, parameter: click.Parameter, value: str | None
    ) -> float | None:
        return None if value is None else check(context, parameter, value)

    return checked


@click.command(short_help="Remove old backups.")
@click.option(
    "--keep",
    metavar="N",
    callback=_if_given(whole_number(1)),
    help="Keep the newest N backups per store; default: backups.keep.",
)
@click.option(
    "--max-age-days",
    metavar="DAYS",
    callback=_if_given(number_of_days),
    help="Remove backups older than DAYS; default: backups.max_age_days.",
)
@click.option(
    "--max-bytes",
    metavar="N",
    callback=_if_given(whole_number(0)),
    help="Keep at most N bytes in total; default: backups.max_bytes.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed and why; change nothing.")
@directory_option
@yes_option
@pass_console
def prune(
    console: Console,
    *,
    keep: int | None,
    max_age_days: float | None,
    max_bytes: int | None,
    dry_run: bool,
    directory: str | None,
    yes: bool,
) -> None:
    """Remove backups that are too many, too old or too large.

    Always keeps the newest complete backup of each store. Also keeps damaged backups: delete them
    yourself.
    """
    settings = load_settings().backups
    rule = BackupRule(
        settings.keep if keep is None else keep,
        settings.max_age_days if max_age_days is None else max_age_days,
        settings.max_bytes if max_bytes is None else max_bytes,
    )
    where = backup_folder(directory)
    plan = prune_backups(where, rule, dry_run=True, now=console.clock)
    if dry_run or not plan.gone:
        _show(console, plan, dry_run=dry_run)
        return
    number = counted(len(plan.gone), "backup")
    if not yes and not console.confirm(f"Remove {number} of {counted(_all(plan), 'backup')}?"):
        console.tell("Nothing was removed.")
        raise click.exceptions.Exit(1)
    _show(console, prune_backups(where, rule, now=console.clock), dry_run=False)


def _all(pruned: PruneResult) -> int:
    return len(pruned.gone) + len(pruned.kept)


def _show(console: Console, pruned: PruneResult, *, dry_run: bool) -> None:
    if console.as_json:
        console.print_json(
            {
                "dry_run": dry_run,
                "removed": [
                    {**as_json(going.backup), "reason_to_go": going.why} for going in pruned.gone
                ],
                "kept": [backup.name for backup in pruned.kept],
            }
        )
        return
    verb = "Would remove" if dry_run else "Removed"
    for going in pruned.gone:
        console.print(
            f"{verb} {one_line(going.backup.name)} ({size(going.backup.size)}): {going.why}"
        )
    if not pruned.gone:
        console.print("Nothing to remove.")
