"""``hermes gateway queue``."""

from __future__ import annotations

import json
from typing import Any

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console, whole_number
from hermes_sessions.cli.render.humanize import counted, relative_time
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.store import open_for_reading, open_for_writing
from hermes_sessions.config import load_settings
from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.inbound_spool import Spool, spool_directory
from hermes_sessions.gateway.overview import QueuedMessage, waiting_messages
from hermes_sessions.storage.repositories.outbox import Outbox, Outgoing


@click.command(short_help="Show queued messages and unsent replies.")
@click.option("--dead", is_flag=True, help="Show only replies that could not be delivered.")
@click.option(
    "--retry", "retried", metavar="NUMBER", type=int, help="Send an undelivered reply again."
)
@click.option("--kept", is_flag=True, help="Show only messages that could not be stored.")
@click.option("--redeliver", is_flag=True, help="Let a gateway store and answer these messages.")
@click.option(
    "--limit",
    default="50",
    callback=whole_number(1),
    show_default=True,
    help="How many messages and replies to show.",
)
@pass_console
def queue(
    console: Console,
    *,
    dead: bool,
    retried: int | None,
    kept: bool,
    redeliver: bool,
    limit: int,
) -> None:
    """Show messages that wait for an answer, and replies that were not sent yet or failed.

    A message that an available database refused to store is kept in a file on this machine. --kept
    lists these messages; fix the cause, then use --redeliver to have them answered. Both options
    work while the database is unavailable.
    """
    settings = load_settings()
    namespace = settings.gateway.namespace
    spool = Spool(spool_directory(settings.home))
    if redeliver:
        _redeliver(console, spool)
        return
    aside = [] if dead else spool.kept()[:limit]
    if kept:
        if console.as_json:
            console.print_json({"kept": [_kept_document(each) for each in aside]})
        else:
            console.print([_kept(each) for each in aside] or "No messages are kept.")
            if aside:
                console.tell(f"Their text and the errors are in {spool.directory}")
        return
    if retried is not None:
        with open_for_writing(console) as db:
            Outbox(db.store, namespace).revive(retried)
        if console.as_json:
            console.print_json({"retried": retried})
        console.tell(f"Reply {retried} will be sent again.")
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
                "kept": [_kept_document(each) for each in aside],
            }
        )
        return
    now = console.clock()
    lines = [_message(message, now) for message in messages]
    lines += [_reply(reply, now) for reply in replies]
    lines += [_kept(each) for each in aside]
    console.print(lines or "The queue is empty.")


def _redeliver(console: Console, spool: Spool) -> None:
    number = spool.requeue_set_aside()
    if console.as_json:
        console.print_json({"redelivered": number})
        return
    if not number:
        console.print("No messages are kept.")
        return
    console.print(
        f"{counted(number, 'message')} will be stored and answered by a gateway on this machine."
    )


def _kept(inbound: Inbound) -> str:
    source, message_id = inbound.source, inbound.message_id
    chat = f"{source.platform.value} {one_line(source.chat_id)}"
    return f"kept message {one_line(message_id or 'without an id')} from {chat}"


def _kept_document(inbound: Inbound) -> dict[str, Any]:
    return {
        "platform": inbound.source.platform.value,
        "chat_id": inbound.source.chat_id,
        "message_id": inbound.message_id,
        "sent_at": inbound.sent_at,
    }


def _message(message: QueuedMessage, now: float) -> str:
    age = relative_time(message.received_at, now)
    state = f"message {message.id} {message.status}, {message.kind}, {age}"
    return f"{state}: {one_line(message.session_key)}"


def _reply(reply: Outgoing, now: float) -> str:
    text = (
        f"reply {reply.id} {reply.status} to {_chat(reply)}, {relative_time(reply.created_at, now)}"
    )
    if reply.attempts:
        text += f", {counted(reply.attempts, 'failed attempt')}"
    return f"{text}: {one_line(reply.error)}" if reply.error else text


def _chat(reply: Outgoing) -> str:
    target: dict[str, Any] = json.loads(reply.target)
    return f"{reply.platform} {one_line(str(target.get('chat_id')))}"


def _document(reply: Outgoing) -> dict[str, Any]:
    values = reply._asdict()
    # The text is in the session; the other two are internal.
    for name in ("text", "chat_hash", "claimed_by"):
        del values[name]
    return {**values, "target": json.loads(reply.target)}
