"""``hermes sessions explain``."""

from __future__ import annotations

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.session_lookup import find_session
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.errors import InvalidInput, NotFound
from hermes_sessions.lifecycle.lane_explanation import LaneExplanation, find_lanes
from hermes_sessions.storage.sessiondb import SessionDB

#: How many conversations an ambiguous reference shows.
_SHOWN = 10


@click.command(short_help="Explain why a conversation uses its current session.")
@click.argument("reference", metavar="ID|KEY...", nargs=-1, required=True)
@pass_console
def explain(console: Console, *, reference: tuple[str, ...]) -> None:
    """Explain why a messenger conversation uses its current session.

    Lists every time the conversation got another session, was stopped, or was interrupted: what
    happened, when and why. KEY is the key of a conversation, such as agent:main:telegram:dm:12345,
    or its beginning; ID is a session that it uses or used: an id, its beginning, or a title.
    """
    with open_for_reading(console) as db:
        found = _found(db, " ".join(reference))
    if console.as_json:
        from hermes_sessions.cli.render.lane_history import lane_document

        console.print_json({"lanes": [lane_document(one) for one in found]})
        return
    from hermes_sessions.cli.render.lane_history import lane_history

    for number, explanation in enumerate(found):
        if number:
            console.print("")
        console.print(lane_history(explanation, style=console.style))


def _found(db: SessionDB, reference: str) -> list[LaneExplanation]:
    found = find_lanes(db.store, reference, _SHOWN + 1)
    if not found.explanations:
        session_id = find_session(db, reference)["id"]
        found = find_lanes(db.store, session_id, _SHOWN + 1)
        if not found.explanations:
            raise NotFound(
                f"Session {session_id} does not belong to a messenger conversation. "
                f"To see it, run: hermes sessions show {session_id}"
            )
    if len(found.explanations) > 1 and not found.is_exact:
        keys = [f"  {one.lane.session_key}" for one in found.explanations[:_SHOWN]]
        if len(found.explanations) > _SHOWN:
            keys.append("  ... and more")
        raise InvalidInput(
            "\n".join([f"{reference!r} matches several conversations. Use more of the key:", *keys])
        )
    return found.explanations
