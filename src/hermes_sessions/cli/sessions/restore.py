"""``hermes sessions restore``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.session_lookup import find_in_trash
from hermes_sessions.cli.store import open_for_writing
from hermes_sessions.model.lineage import COMPRESSION

Record = Mapping[str, Any]


@click.command(short_help="Restore sessions from the trash.")
@click.argument("references", metavar="ID...", nargs=-1, required=True)
@pass_console
def restore(console: Console, *, references: tuple[str, ...]) -> None:
    """Restore sessions from the trash.

    Sessions of one conversation that were deleted together are restored together. If another
    session has taken a title since, the restored one gets the next number. If any ID is unknown,
    nothing is restored.
    """
    with open_for_writing(console) as db:
        trashed = db.list_trash()
        wanted: dict[str, None] = {}
        for reference in references:
            session = find_in_trash(trashed, reference)
            wanted |= dict.fromkeys(_chain_in_trash(trashed, session))
        restored = db.restore_sessions(wanted)
        titles = {session_id: db.get_session_title(session_id) for session_id in restored}
    if console.as_json:
        console.print_json({"restored": restored})
        return
    for session_id in restored:
        title = one_line(titles[session_id] or "")
        console.print(f"Restored {one_line(session_id)}{'  ' if title else ''}{title}")
    if len(restored) > 1:
        console.print(f"{counted(len(restored), 'session')} restored.")


def _chain_in_trash(trashed: Sequence[Record], session: Record) -> list[str]:
    """Return the ids in the trash that continue *session* or that it continues."""
    continuations = [s for s in trashed if s["edge_kind"] == COMPRESSION]
    chain = {session["id"]}
    while more := {
        end
        for link in continuations
        for end, other in (
            (link["id"], link["parent_session_id"]),
            (link["parent_session_id"], link["id"]),
        )
        if other in chain and end not in chain
    }:
        chain |= more
    return [s["id"] for s in trashed if s["id"] in chain]
