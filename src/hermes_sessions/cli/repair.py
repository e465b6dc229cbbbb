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


@click.command(short_help="Save what can be read of a damaged SQLite file.")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--check-only", is_flag=True, help="Say what is wrong, and change nothing.")
@click.option(
    "--to", metavar="NEW_FILE", help="Write the saved store there, and leave FILE where it is."
)
@click.option(
    "--way",
    type=click.Choice(_WAYS),
    default="auto",
    show_default=True,
    help="Read it with the sqlite3 tool, or row by row; auto takes the tool if it can do it.",
)
@yes_option
@pass_console
def repair(
    console: Console, *, file: str | None, check_only: bool, to: str | None, way: str, yes: bool
) -> None:
    """Save what can be read of a damaged SQLite file into a new one, after a confirmation.

    Without FILE, the configured store. The new file takes the place of the damaged one when it was
    read back, and only while nobody else has the store open; the damaged file is kept beside it.
    Says exactly what was saved and what was not. A sound file is left alone; if the search index
    alone is damaged, it is made anew.

    With --check-only, the exit code is 0 for a sound file and 1 for a damaged one.
    """
    # Needed as rarely as it is hoped.
    from hermes_sessions.storage.care.repair import file_repair
    from hermes_sessions.storage.care.repair.report import RepairOptions

    show_warnings(console)
    path = _wanted(file)
    if check_only or not yes:
        found = file_repair.check(path)
        if not found.findings:
            _tell(console, found.document(), f"{path} is sound.")
            return
        if console.as_json and check_only:
            console.print_json(found.document())
        else:
            said = console.print if check_only else console.tell
            said([f"{path} is damaged:", *findings_lines(found.findings)])
        if check_only:
            if not console.as_json:
                console.print("To save what can be read: hermes repair" + _again(file))
            raise click.exceptions.Exit(1)
        if not console.confirm(_question(to)):
            console.tell("Cancelled; nothing was changed.")
            raise click.exceptions.Exit(1)
    options = RepairOptions(
        to=None if to is None else Path(to),
        keep=load_settings().repair.keep,
        way=cast("Way", way),
        clock=console.clock,
        on_progress=_telling_steps(console),
    )
    report = file_repair.repair(path, options)
    if console.as_json:
        console.print_json(report.document())
    else:
        console.print(report_lines(report))


def _telling_steps(console: Console) -> Callable[[str, int], None]:
    """Return what says on a terminal which step has begun; a large file takes its time."""
    said: set[str] = set()

    def tell(step: str, _count: int) -> None:
        if step not in said and sys.stderr.isatty() and not console.as_json:
            said.add(step)
            console.tell(f"{step.capitalize()} …")

    return tell


def _wanted(file: str | None) -> Path:
    settings = load_settings().sessiondb
    if file is not None:
        return Path(file)
    if settings.provider != "sqlite":
        raise InvalidInput(
            f"The configured store is on {settings.provider}, whose server looks after its files. "
            f"Name a SQLite FILE, or restore a backup: hermes backup list"
        )
    return settings.sqlite.path


def _question(to: str | None) -> str:
    if to is not None:
        return f"Save what can be read into {to}?"
    return "Save what can be read into a new file, put it in this place, and keep the damaged one?"


def _again(file: str | None) -> str:
    from shlex import quote

    return f" {quote(file)}" if file else ""


def _tell(console: Console, document: dict[str, object], text: str) -> None:
    if console.as_json:
        console.print_json(document)
    else:
        console.print(text)
