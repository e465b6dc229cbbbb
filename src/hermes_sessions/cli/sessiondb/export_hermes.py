"""``hermes sessiondb export-hermes``."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.storage.file_care import HermesSchema
from hermes_sessions.storage.provider_registry import file_care


@click.command("export-hermes", short_help="Write a file that hermes-agent can open.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--schema",
    type=click.Choice(["11", "22"]),
    default="22",
    show_default=True,
    help="11 for hermes-agent 0.13, 22 for 0.19.",
)
@pass_console
def export_hermes(console: Console, *, file: Path, schema: str) -> None:
    """Write all sessions of the configured store to FILE, which hermes-agent opens, lists, searches
    and continues.

    FILE must not exist. The store is only read. Sessions in the trash are not written; what the
    schema cannot express is counted in the report.
    """
    with open_for_reading(console) as db:
        written = file_care().export_database(db, file, cast("HermesSchema", int(schema)))
    if console.as_json:
        console.print_json({"file": str(file), "schema": int(schema), **written._asdict()})
        return
    console.print(
        f"Wrote {counted(written.sessions, 'session')} with "
        f"{counted(written.messages, 'message')} to {file}."
    )
    console.print(f"Left out: {number:,} {kind}" for kind, number in written.left_out.items())
