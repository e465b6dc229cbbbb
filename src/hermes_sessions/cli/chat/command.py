"""``hermes chat``: options, and what they open."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import speaks_to_console
from hermes_sessions.cli.selection import find_session
from hermes_sessions.cli.store import open_for_writing
from hermes_sessions.errors import NotFound

if TYPE_CHECKING:
    from hermes_sessions.storage.sessiondb import SessionDB


@click.command(short_help="Talk to a model; also as hermes alone.")
@click.option("-q", "--query", metavar="TEXT", help="Ask once, print the answer, and leave.")
@click.option(
    "-c",
    "--continue",
    "continued",
    metavar="[SESSION]",
    help="Go on with a session: an id, its beginning, or a title; without one, the latest.",
)
@click.option(
    "-r",
    "--resume",
    "resumed",
    metavar="SESSION",
    help="Go on with this session: an id, its beginning, or a title.",
)
@click.option("-m", "--model", metavar="NAME", help="The model to ask.")
@click.option("--base-url", metavar="URL", help="An OpenAI-compatible endpoint.")
@speaks_to_console
def chat(
    console: Console,
    *,
    query: str | None,
    continued: str | None,
    resumed: str | None,
    model: str | None,
    base_url: str | None,
) -> None:
    """Talk to a model; everything is stored as it happens.

    Ctrl-C interrupts an answer and keeps what was said, Ctrl-D leaves. /help shows the commands.
    The names of sessions may have several words without quotes.
    """
    # Loaded when somebody talks: other commands start faster without.
    from hermes_sessions.agent.clients.choosing import choose_model
    from hermes_sessions.cli.chat.talking import Talk
    from hermes_sessions.config import load_settings

    is_conversation = query is None and sys.stdin.isatty()
    if is_conversation and console.as_json:
        raise click.UsageError("--json is for one question: hermes chat --json -q 'Why?'")
    settings = load_settings()
    chosen = choose_model(settings.model, base_url=base_url, model=model, environ=console.environ)
    if chosen.is_local:
        from hermes_sessions.agent.clients import local_package

        local_package.fetch(say=console.tell)
    with open_for_writing(console) as db:
        session_id = _wanted(db, continued, resumed)
        client = chosen.open()
        try:
            talk = Talk(console, db, client, chosen, settings, session_id)
            if is_conversation:
                talk.run()
            else:
                talk.ask_once(sys.stdin.read() if query is None else query)
        finally:
            client.close()


def _wanted(db: SessionDB, continued: str | None, resumed: str | None) -> str | None:
    """Return the session to go on with, None to start a new one.

    Raises:
        NotFound, InvalidInput: no session is meant, or several are; the message names the nearest.
    """
    name = resumed if resumed is not None else continued
    if name is None:
        return None
    if name.strip():
        session_id = find_session(db, name.strip())["id"]
    elif resumed is not None:
        raise click.UsageError("--resume needs a session: an id, its beginning, or a title.")
    else:
        latest = db.list_sessions_rich(source="cli", limit=1, include_archived=True)
        if not latest:
            raise NotFound("There is no session to continue yet. Start one: hermes")
        session_id = latest[0]["id"]
    return db.resolve_resume_session_id(session_id)
