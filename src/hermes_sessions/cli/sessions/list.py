"""``hermes sessions list``."""

from __future__ import annotations

from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.lazy_group import QuickCommand
from hermes_sessions.cli.options import (
    pass_console,
    selection_options,
    source_option,
    time_span,
    whole_number,
)
from hermes_sessions.cli.session_list import DEFAULT_LIMIT, print_sessions


@click.command("list", cls=QuickCommand, short_help="List sessions, most recently active first.")
@source_option
@click.option(
    "--limit",
    metavar="N",
    default=str(DEFAULT_LIMIT),
    callback=whole_number(at_least=1),
    show_default=True,
    help="How many sessions to show.",
)
@click.option("--all", "everything", is_flag=True, help="Show all sessions, ignoring --limit.")
@click.option("--by-start", is_flag=True, help="Sort by start time instead of last activity.")
@click.option("--since", metavar="WHEN", help="Only sessions active at or after this time: 7d.")
@click.option("--until", metavar="WHEN", help="Only sessions last active before this time.")
@click.option("--user", metavar="ID", help="Only sessions of this user.")
@click.option("--archived", is_flag=True, help="Show only archived sessions.")
@click.option("--pinned", is_flag=True, help="Show only pinned sessions.")
@click.option(
    "--children", is_flag=True, help="Also show subagents and earlier parts of conversations."
)
@selection_options
@pass_console
def list_sessions(
    console: Console, *, since: str | None, until: str | None, **options: Any
) -> None:
    """List sessions, most recently active first.

    A conversation that was continued under new ids is one line. Sessions from the source "tool"
    are shown only with --source tool.
    """
    after, before = time_span(console, since, until)
    print_sessions(console, after=after, before=before, **options)
