"""``hermes sessions list``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.lazy_group import QuickCommand
from hermes_sessions.cli.options import pass_console, source_option, time_span, whole_number
from hermes_sessions.cli.render.session_table import LAST_ACTIVE, STARTED, session_table
from hermes_sessions.cli.selection import (
    SelectionOptions,
    columns_of_labels,
    selection_options,
)
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.model.scope import Scope

#: Sessions of integrations are shown only when their source is asked for.
HIDDEN_SOURCES = ("tool",)
_ALL = -1


@click.command("list", cls=QuickCommand, short_help="List sessions, most recently active first.")
@source_option
@click.option(
    "--limit",
    metavar="N",
    default="20",
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
    console: Console,
    *,
    source: str | None,
    limit: int,
    everything: bool,
    by_start: bool,
    since: str | None,
    until: str | None,
    user: str | None,
    archived: bool,
    pinned: bool,
    children: bool,
    selection: SelectionOptions,
) -> None:
    """List sessions, most recently active first.

    A conversation that was continued under new ids is one line. Sessions from the source "tool"
    are shown only with --source tool.
    """
    after, before = time_span(console, since, until)
    with open_for_reading(console) as db:
        found = db.list_sessions_rich(
            source=source,
            exclude_sources=None if source else HIDDEN_SOURCES,
            limit=_ALL if everything else limit,
            include_children=children,
            order_by_last_active=not by_start,
            archived_only=archived,
            pinned_only=pinned,
            since=after,
            until=before,
            scope=Scope(user_id=user),
            compact_rows=True,
            **selection.read(db).parameters(),
        )
        labels = columns_of_labels(db, found)
    if console.as_json:
        from hermes_sessions.cli.render.json_output import sessions_document

        console.print_json(sessions_document(found))
    elif not found:
        console.print("No sessions found.")
    else:
        when = STARTED if by_start else LAST_ACTIVE
        now, style = console.clock(), console.style
        console.print(session_table(found, now=now, style=style, when=when, labels=labels))
