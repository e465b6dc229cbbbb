"""Prints the list of sessions.

`cli.main` runs this for ``hermes sessions list`` without options. Nothing here imports click, which
takes longer than reading and printing the sessions.
"""

from __future__ import annotations

from typing import Final

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.render.session_table import LAST_ACTIVE, STARTED, session_table
from hermes_sessions.cli.selection import NO_OPTIONS, SelectionOptions, columns_of_labels
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.model.scope import Scope

#: Sessions of integrations are shown only when their source is asked for.
HIDDEN_SOURCES: Final = ("tool",)
DEFAULT_LIMIT: Final = 20
_ALL = -1


def print_sessions(
    console: Console,
    *,
    source: str | None = None,
    limit: int = DEFAULT_LIMIT,
    everything: bool = False,
    by_start: bool = False,
    after: float | None = None,
    before: float | None = None,
    user: str | None = None,
    archived: bool = False,
    pinned: bool = False,
    children: bool = False,
    selection: SelectionOptions = NO_OPTIONS,
) -> None:
    """Print the sessions that the options of ``hermes sessions list`` ask for.

    Raises:
        NotFound, InvalidInput: the selection names no workspace, or several.
        ConfigError, StoreError: the store cannot be read; one line that says what to do.
    """
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
