"""``hermes sessions show``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import speaks_to_console, whole_number
from hermes_sessions.cli.selection import find_session
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.model.message import preview_of
from hermes_sessions.storage.sessiondb import SessionDB

Record = dict[str, Any]

#: Messages read at a time, so that a long session does not fill the memory.
_PAGE = 200


@click.command(short_help="Show one session and its last messages.")
@click.argument("reference", metavar="ID...", nargs=-1, required=True)
@click.option(
    "--messages",
    "count",
    metavar="N",
    default="10",
    callback=whole_number(at_least=0),
    show_default=True,
    help="How many of the last messages to show.",
)
@click.option("--full", is_flag=True, help="Show every message, and all of its text.")
@speaks_to_console
def show(console: Console, *, reference: tuple[str, ...], count: int, full: bool) -> None:
    """Show one session: what is known about it, and its last messages.

    ID is a session id, the beginning of one, or a title; a title of several words needs no quotes.
    """
    with open_for_reading(console) as db:
        session = find_session(db, " ".join(reference))
        stored = db.message_count(session["id"])
        earlier = 0 if full else max(stored - count, 0)
        session["last_active"] = _last_active(db, session, stored)
        session["preview"] = _preview(db, session["id"])
        if console.as_json:
            _print_document(console, db, session, earlier)
        else:
            _print_text(console, db, session, earlier, full=full)


def _last_active(db: SessionDB, session: Record, stored: int) -> float:
    last = db.get_messages(session["id"], limit=1, offset=stored - 1) if stored else []
    timestamp: float = last[0]["timestamp"] if last else session["started_at"]
    return timestamp


def _preview(db: SessionDB, session_id: str) -> str:
    said = (m["content"] for m in db.get_messages(session_id, limit=_PAGE) if m["role"] == "user")
    return preview_of(next((content for content in said if content is not None), None))


def _messages_after(db: SessionDB, session_id: str, earlier: int) -> Iterator[Record]:
    while page := db.get_messages(session_id, limit=_PAGE, offset=earlier):
        yield from page
        earlier += len(page)


def _print_document(console: Console, db: SessionDB, session: Record, earlier: int) -> None:
    from hermes_sessions.cli.render.documents import message_document, session_document

    console.print_json(
        {
            "session": session_document(session),
            "earlier_messages": earlier,
            "messages": [
                message_document(message) for message in _messages_after(db, session["id"], earlier)
            ],
        }
    )


def _print_text(
    console: Console, db: SessionDB, session: Record, earlier: int, *, full: bool
) -> None:
    from hermes_sessions.cli.render.quantity import counted
    from hermes_sessions.cli.render.session_card import session_card
    from hermes_sessions.cli.render.transcript import message_lines

    style = console.style
    family = db.list_conversation(session["id"])
    console.print(session_card(session, conversation=family, now=console.clock(), style=style))
    if earlier:
        skipped = f"{style.ellipsis} {counted(earlier, 'earlier message')} {style.ellipsis}"
        console.print(["", style.dim(skipped)])
    for message in _messages_after(db, session["id"], earlier):
        console.print(["", *message_lines(message, style=style, full=full)])
