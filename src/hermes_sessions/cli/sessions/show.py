"""``hermes sessions show``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console, whole_number
from hermes_sessions.cli.session_lookup import find_session, preview_of_session
from hermes_sessions.cli.store import open_for_reading
from hermes_sessions.errors import NotFound
from hermes_sessions.storage.sessiondb import SessionDB

Record = Mapping[str, Any]

#: Messages read at a time, to bound memory for long sessions.
_PAGE = 200


@dataclass(frozen=True, slots=True)
class _Part:
    """The messages to show, and how many are left out."""

    messages: Iterator[Record]
    earlier: int
    later: int = 0
    #: The requested message.
    anchor: int | None = None


def _message_number(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> int | None:
    return None if value is None else whole_number(at_least=1)(context, parameter, value)


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
@click.option(
    "--around",
    metavar="MESSAGE",
    callback=_message_number,
    help="Show the messages around this one (search prints its number).",
)
@click.option("--full", is_flag=True, help="Show all messages, with their full text.")
@pass_console
def show(
    console: Console, *, reference: tuple[str, ...], count: int, around: int | None, full: bool
) -> None:
    """Show one session: its details and its last messages.

    ID is a session id, its beginning, or a title; a title of several words needs no quotes.
    """
    with open_for_reading(console) as db:
        found = find_session(db, " ".join(reference))
        stored = db.message_count(found["id"])
        session = {
            **found,
            "last_active": _last_active(db, found, stored),
            "preview": preview_of_session(db, found["id"]),
        }
        if around is not None:
            part = _around(db, session["id"], around, count // 2)
        else:
            earlier = 0 if full else max(stored - count, 0)
            part = _Part(_messages_after(db, session["id"], earlier), earlier)
        if console.as_json:
            _print_document(console, session, part)
        else:
            _print_text(console, db, session, part, full=full)


def _last_active(db: SessionDB, session: Record, stored: int) -> float:
    last = db.get_messages(session["id"], limit=1, offset=stored - 1) if stored else []
    timestamp: float = last[0]["timestamp"] if last else session["started_at"]
    return timestamp


def _around(db: SessionDB, session_id: str, message_id: int, window: int) -> _Part:
    found = db.get_messages_around(session_id, message_id, window)
    if not found["window"]:
        raise NotFound(f"Session {session_id} has no message {message_id}.")
    before, after = found["messages_before"], found["messages_after"]
    return _Part(iter(found["window"]), before, after, anchor=message_id)


def _messages_after(db: SessionDB, session_id: str, earlier: int) -> Iterator[Record]:
    while page := db.get_messages(session_id, limit=_PAGE, offset=earlier):
        yield from page
        earlier += len(page)


def _print_document(console: Console, session: Record, part: _Part) -> None:
    from hermes_sessions.cli.render.json_output import message_document, session_document

    console.print_json(
        {
            "session": session_document(session),
            "earlier_messages": part.earlier,
            "messages": [message_document(message) for message in part.messages],
            "later_messages": part.later,
        }
    )


def _print_text(
    console: Console, db: SessionDB, session: Record, part: _Part, *, full: bool
) -> None:
    from hermes_sessions.cli.render.humanize import counted
    from hermes_sessions.cli.render.session_card import session_card
    from hermes_sessions.cli.render.transcript import message_lines

    style = console.style
    family = db.list_conversation(session["id"])
    workspace = db.get_workspace_names() if session["workspace_id"] else {}
    card = session_card(
        session,
        conversation=family,
        usage=db.get_model_usage(session["id"]),
        workspace=workspace.get(session["workspace_id"] or ""),
        now=console.clock(),
        style=style,
    )
    console.print(card)
    if part.earlier:
        skipped = f"{style.ellipsis} {counted(part.earlier, 'earlier message')} {style.ellipsis}"
        console.print(["", style.dim(skipped)])
    for message in part.messages:
        is_anchor = message["id"] == part.anchor
        # The requested message is shown in full: the text of interest may be in its last line.
        lines = message_lines(
            message,
            style=style,
            full=full or is_anchor,
            note=f"message {part.anchor}" if is_anchor else "",
        )
        console.print(["", *lines])
    if part.later:
        skipped = f"{style.ellipsis} {counted(part.later, 'later message')} {style.ellipsis}"
        console.print(["", style.dim(skipped)])
