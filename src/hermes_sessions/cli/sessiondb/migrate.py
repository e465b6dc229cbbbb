"""``hermes sessiondb migrate``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Literal

import click

from hermes_sessions.cli.console import Console, Progress
from hermes_sessions.cli.options import moment, pass_console
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.store import open_store_at, show_warnings
from hermes_sessions.config import load_settings
from hermes_sessions.errors import StoreMissing, TransferRefused
from hermes_sessions.storage.provider import SessionDBProvider
from hermes_sessions.storage.transfer.comparison import TransferPlan, plan
from hermes_sessions.storage.transfer.run import Transfer, TransferReport
from hermes_sessions.storage.transfer.side_rows import Difference

#: How many lines of each kind are printed; --json has all of them.
_SHOWN = 10


@click.command(short_help="Copy all sessions to another database and verify them.")
@click.option(
    "--from", "source", metavar="STORE", help="The source; default: the SQLite file in HERMES_HOME."
)
@click.option("--to", "target", metavar="STORE", help="The target; default: the configured store.")
@click.option(
    "--merge",
    type=click.Choice(["skip", "overwrite"]),
    help="Allow a target with other sessions; skip or overwrite those in both.",
)
@click.option(
    "--since",
    metavar="WHEN",
    help="Only sessions active at or after this time: 2026-05-01, 12h, today.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be copied; change nothing.")
@pass_console
def migrate(
    console: Console,
    *,
    source: str | None,
    target: str | None,
    merge: Literal["skip", "overwrite"] | None,
    since: str | None,
    dry_run: bool,
) -> None:
    """Copy all sessions from one database to another, and verify that they are identical.

    The source is not changed, and other programs may keep using it. To resume an interrupted
    migration, or to copy later changes of the source, run the same command again. Changes in the
    target are never overwritten without --merge overwrite. Exits with 1 if any differences remain.
    """
    show_warnings(console)
    earliest = moment(console, "since", since)
    started = console.stopwatch()
    with ExitStack() as stack:
        source = _source(source, target)
        first = stack.enter_context(open_store_at(source, read_only=True))
        if dry_run:
            second = _if_it_exists(stack, target)
            _report_plan(console, plan(first, second, merge=merge, since=earliest))
            return
        second = stack.enter_context(open_store_at(target, read_only=False))
        bars = stack.enter_context(_ProgressBars(console))
        report = Transfer(first, second, merge=merge, since=earliest, on_progress=bars.reach).run()
        settings = _keys(second)
    _tell(console, report, console.stopwatch() - started, is_catch_up=since is not None)
    if settings and not report.differences and since is None:
        console.tell(f"To use this store, set in config.yaml: {settings}")
    if report.differences:
        raise click.exceptions.Exit(1)


def _source(source: str | None, target: str | None) -> str:
    settings = load_settings().sessiondb
    if target is None and settings.store_file is not None and source is None:
        raise TransferRefused(
            f"Source and target would be the same store, {settings.store_file}: "
            f"sessiondb.provider is {settings.provider}. Name another store with --to, or set "
            f"sessiondb.provider in config.yaml."
        )
    return source or str(settings.sqlite.path)


def _if_it_exists(stack: ExitStack, target: str | None) -> SessionDBProvider | None:
    try:
        return stack.enter_context(open_store_at(target, read_only=True))
    except StoreMissing:
        return None


class _ProgressBars:
    """Shows one progress bar after another."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._label = ""
        self._bar: Progress | None = None

    def reach(self, label: str, done: int, total: int) -> None:
        if label != self._label or self._bar is None:
            self.__exit__()
            self._label = label
            self._bar = self._console.progress(label, total)
            self._bar.__enter__()
        self._bar.reach(done, total)

    def __enter__(self) -> _ProgressBars:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)


def _keys(provider: SessionDBProvider) -> str:
    """Return the keys to set to use a store; "" if they probably are set."""
    settings = load_settings().sessiondb
    is_kind = settings.provider == provider.name
    if provider.is_file:
        path = provider.describe()["path"]
        is_path = os.path.realpath(settings.sqlite.path) == path
        kind = "" if is_kind else f"sessiondb.provider: {provider.name}, and "
        return "" if is_kind and is_path else f"{kind}sessiondb.{provider.name}.path: {path}"
    if is_kind:
        return ""
    return f"sessiondb.provider: {provider.name}, and sessiondb.{provider.name}.dsn"


# ── output ────────────────────────────────────────────────────────────────────────────────────


def _report_plan(console: Console, found: TransferPlan) -> None:
    # Do not print the given URL, which may contain a password.
    target = found.target or "a new store"
    if console.as_json:
        console.print_json(
            {
                "dry_run": True,
                "source": found.source,
                "target": found.target or None,
                "sessions": found.copied,
                "messages": found.copied_messages,
                "skipped": found.skipped,
                "overwritten": found.overwritten,
                "differences": [each._asdict() for each in found.differences],
            }
        )
        return
    what = f"{counted(found.copied, 'session')} ({counted(found.copied_messages, 'message')})"
    console.print(f"Would copy {what} from {found.source} to {target}.")
    console.print(_kept_and_replaced(found, "Would replace", "Would skip"))
    console.tell(_unlike(found.differences))


def _tell(console: Console, report: TransferReport, seconds: float, *, is_catch_up: bool) -> None:
    if console.as_json:
        console.print_json(
            {
                "source": report.source,
                "target": report.target,
                "sessions": report.sessions,
                "messages": report.messages,
                "indexed": report.indexed,
                "copied_sessions": report.copied,
                "copied_messages": report.copied_messages,
                "removed_sessions": report.removed,
                "skipped": report.skipped,
                "overwritten": report.overwritten,
                "untitled": report.untitled,
                "complete": not is_catch_up and not report.differences,
                "differences": [each._asdict() for each in report.differences],
                "seconds": round(seconds, 3),
            }
        )
    else:
        console.print(_summary(report, seconds, is_catch_up=is_catch_up))
        console.print(_kept_and_replaced(report, "Replaced", "Skipped"))
    console.tell(
        f"Note: {one_line(name)} lost its title, which another session in the target has."
        for name in report.untitled[:_SHOWN]
    )
    console.tell(_unlike(report.differences))


def _summary(report: TransferReport, seconds: float, *, is_catch_up: bool) -> Iterator[str]:
    if is_catch_up:
        yield (
            f"Copied {report.copied:,} of {report.sessions:,} sessions active since then, "
            f"{report.copied_messages:,} messages in {seconds:.1f}s"
        )
        yield "To finish, run the command again without --since."
    elif report.copied or report.removed or report.differences:
        yield (
            f"Migrated {report.sessions:,} sessions, {report.messages:,} messages, "
            f"{report.indexed:,} FTS entries in {seconds:.1f}s"
        )
        if 0 < report.copied < report.sessions:
            yield f"{report.sessions - report.copied:,} of these sessions were copied earlier."
    else:
        yield (
            f"Nothing to do: {report.sessions:,} sessions, {report.messages:,} messages are "
            f"identical in both."
        )
    if report.removed:
        yield f"Removed {counted(report.removed, 'session')} that the source no longer has."


def _kept_and_replaced(
    found: TransferReport | TransferPlan, replaced: str, left: str
) -> Iterator[str]:
    for label, ids in ((replaced, found.overwritten), (left, found.skipped)):
        if ids:
            names = ", ".join(map(one_line, ids[:_SHOWN]))
            more = f", ... and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            yield f"{label}: {names}{more}"


def _unlike(differences: Sequence[Difference]) -> Iterator[str]:
    if differences:
        yield f"Error: {counted(len(differences), 'difference')} between source and target:"
    for each in differences[:_SHOWN]:
        yield f"  {one_line(each.id)} {each.what}"
    if len(differences) > _SHOWN:
        yield f"  ... and {len(differences) - _SHOWN} more (--json has all)"
