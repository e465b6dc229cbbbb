"""``hermes gateway queue``."""

from __future__ import annotations

import json
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import speaks_to_console, whole_number
from hermes_sessions.cli.render.age import relative_time
from hermes_sessions.cli.render.safety import one_line
from hermes_sessions.cli.store import open_for_reading, open_for_writing
from hermes_sessions.config import load_settings
from hermes_sessions.gateway.overview import Waiting, waiting_messages
from hermes_sessions.storage.repositories.outbox import Outbox, Outgoing


@click.command(short_help="Show messages that wait and replies not sent.")
@click.option("--dead", is_flag=True, help="Only replies that could not be delivered.")
@click.option("--retry", "retried", metavar="NUMBER", type=int, help="Send a dead reply again.")
@click.option(
    "--limit", default="50", callback=whole_number(1), show_default=True, help="How many of each."
)
@speaks_to_console
def queue(console: Console, *, dead: bool, retried: int | None, limit: int) -> None:
    """Show messages that wait for an answer, and replies that wait to be sent or could not be."""
    namespace = load_settings().gateway.namespace
    if retried is not None:
        with open_for_writing(console) as db:
            Outbox(db.store, namespace).revive(retried)
        if console.as_json:
            console.print_json({"retried": retried})
        console.tell(f"Reply {retried} is sent again.")
        return
    with open_for_reading(console) as db:
        messages = [] if dead else waiting_messages(db.store, namespace, limit)
        statuses = ["dead"] if dead else ["dead", "waiting", "sending"]
        replies = Outbox(db.store, namespace).list(statuses, limit=limit)  # type: ignore[arg-type]
    if console.as_json:
        console.print_json(
            {
                "messages": [message._asdict() for message in messages],
                "replies": [_document(reply) for reply in replies],
            }
        )
        return
    now = console.clock()
    lines = [_message(message, now) for message in messages]
    lines += [_reply(reply, now) for reply in replies]
    console.print(lines or "Nothing waits.")


def _message(message: Waiting, now: float) -> str:
    age = relative_time(message.received_at, now)
    state = f"message {message.id} {message.status}, {message.kind}, {age}"
    return f"{state}: {one_line(message.session_key)}"


def _reply(reply: Outgoing, now: float) -> str:
    words = (
        f"reply {reply.id} {reply.status} to {_chat(reply)}, {relative_time(reply.created_at, now)}"
    )
    if reply.attempts:
        words += f", {reply.attempts} failed attempt{'s' if reply.attempts != 1 else ''}"
    return f"{words}: {one_line(reply.error)}" if reply.error else words


def _chat(reply: Outgoing) -> str:
    target: dict[str, Any] = json.loads(reply.target)
    return f"{reply.platform} {one_line(str(target.get('chat_id')))}"


def _document(reply: Outgoing) -> dict[str, Any]:
    values = reply._asdict()
    # What was said is in the session.
    for name in ("text", "chat_hash", "claimed_by"):
        del values[name]
    return {**values, "target": json.loads(reply.target)}
