"""``hermes repair``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console, yes_option
from hermes_sessions.cli.render.repair import findings_lines, report_lines
from hermes_sessions.cli.store import show_warnings
from hermes_sessions.config import load_settings
from hermes_sessions.errors import InvalidInput

if TYPE_CHECKING:
    from hermes_sessions.storage.care.repair.report import Way

_WAYS = ("auto", "tool", "rows")


@click.command(short_help="Recover data from a damaged SQLite file.")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--check-only", is_flag=True, help="Report damage and change nothing.")
@click.option(
    "--to",
    metavar="NEW_FILE",
    help="Write the recovered store to NEW_FILE; leave FILE in place.",
)
@click.option(
    "--way",
    type=click.Choice(_WAYS),
    default="auto",
    show_default=True,
    help="How to read FILE: with the sqlite3 tool or row by row; auto prefers the tool.",
)
@yes_option
@pass_console
def repair(
    console: Console, *, file: str | None, check_only: bool, to: str | None, way: str, yes: bool
) -> None:
    """Recover the readable data of a damaged SQLite file into a new one, after a confirmation.

    FILE defaults to the configured store. The new file is verified before it replaces the damaged
    one, which is kept next to it; no other process may have the store open. Reports exactly what
    was recovered and what was lost. An intact file is left alone; if only the search index is
    damaged, it is rebuilt.

    With --check-only, exits with 0 if the file is intact and with 1 if it is damaged.
    """
    from hermes_sessions.storage.care.repair import file_repair
    from hermes_sessions.storage.care.repair.report import RepairOptions

    show_warnings(console)
    path = _path(file)
    if check_only or not yes:
        found = file_repair.check(path)
        if not found.findings:
            _print(console, found.document(), f"{path} is intact.")
            return
        if console.as_json and check_only:
            console.print_json(found.document())
        else:
            show = console.print if check_only else console.tell
            show([f"{path} is damaged:", *findings_lines(found.findings)])
        if check_only:
            if not console.as_json:
                console.print(
                    "To recover the readable data, run: hermes repair" + _file_argument(file)
                )
            raise click.exceptions.Exit(1)
        if not console.confirm(_question(to)):
            console.tell("Cancelled; nothing was changed.")
            raise click.exceptions.Exit(1)
    options = RepairOptions(
        to=None if to is None else Path(to),
        keep=load_settings().repair.keep,
        way=cast("Way", way),
        clock=console.clock,
        on_progress=_step_printer(console),
    )
    report = file_repair.repair(path, options)
    if console.as_json:
        console.print_json(report.document())
    else:
        console.print(report_lines(report))


def _step_printer(console: Console) -> Callable[[str, int], None]:
    """Return a callback that prints each new step on a terminal: large files take a while."""
    printed: set[str] = set()

    def tell(step: str, _count: int) -> None:
        if step not in printed and sys.stderr.isatty() and not console.as_json:
            printed.add(step)
            console.tell(f"{step.capitalize()} …")

    return tell


def _path(file: str | None) -> Path:
    settings = load_settings().sessiondb
    if file is not None:
        return Path(file)
    if settings.store_file is None:
        raise InvalidInput(
            f"The configured store is on {settings.provider}, whose server manages its files. "
            f"Name a SQLite FILE, or restore a backup: hermes backup list"
        )
    return settings.store_file


def _question(to: str | None) -> str:
    if to is not None:
        return f"Recover the readable data into {to}?"
    return "Recover the readable data into a new file, replace this one, and keep a copy of it?"


def _file_argument(file: str | None) -> str:
    from shlex import quote

    return f" {quote(file)}" if file else ""


def _print(console: Console, document: dict[str, object], text: str) -> None:
    if console.as_json:
        console.print_json(document)
    else:
        console.print(text)
