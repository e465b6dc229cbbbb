"""``hermes chat``: options, and what they open."""

from __future__ import annotations

import sys
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.session_lookup import find_session
from hermes_sessions.cli.store import open_for_writing
from hermes_sessions.errors import InvalidInput, NotFound, StoreError

if TYPE_CHECKING:
    from hermes_sessions.storage.sessiondb import SessionDB

import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

# The keyboard between two prompts: what is typed then is neither echoed nor lost.


_LOCAL_MODES = 3


@contextmanager
def buffered_keys() -> Iterator[None]:
    """Have keys wait for the next prompt, each by itself; only Ctrl-C acts at once.

    Otherwise the terminal would gather them into lines, and take Ctrl-D for the end of one.
    """
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    meanwhile = termios.tcgetattr(keyboard)
    meanwhile[_LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(keyboard, termios.TCSADRAIN, meanwhile)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


# A chat whose terminal is closed, or that is told to end: what was said is kept.


class TerminationRequested(SystemExit):
    """The process was told to end."""


@contextmanager
def raise_on_termination() -> Iterator[None]:
    """Let SIGHUP and SIGTERM unwind the block once, instead of ending the process on the spot.

    Raises TerminationRequested within the block, with the exit code of the signal.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}

    def unwind(number: int, _frame: FrameType | None) -> None:
        # Whoever insists has to wait no longer.
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise TerminationRequested(128 + number)

    for number, handler in before.items():
        # What somebody chose to ignore, as nohup does, stays ignored.
        if handler is not signal.SIG_IGN:
            signal.signal(number, unwind)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
@click.option("--incognito", is_flag=True, help="Store nothing of it; it is gone when you leave.")
@pass_console
def chat(
    console: Console,
    *,
    query: str | None,
    continued: str | None,
    resumed: str | None,
    model: str | None,
    base_url: str | None,
    incognito: bool,
) -> None:
    """Talk to a model; everything is stored as it happens, unless it is --incognito.

    Ctrl-C interrupts an answer and keeps what was said, Ctrl-D leaves. /help shows the commands.
    The names of sessions may have several words without quotes.
    """
    # Loaded when somebody talks: other commands start faster without.
    from hermes_sessions.agent.clients.model_selection import choose_model
    from hermes_sessions.cli.chat.controller import CLOSED, ChatController
    from hermes_sessions.cli.chat.prompt import can_prompt
    from hermes_sessions.cli.chat.repl import ChatRepl
    from hermes_sessions.cli.chat.slash_commands import TerminalCommands
    from hermes_sessions.config import load_settings

    is_conversation = query is None and sys.stdin.isatty()
    if is_conversation and console.as_json:
        raise click.UsageError("--json is for one question: hermes chat --json -q 'Why?'")
    if incognito and (continued is not None or resumed is not None):
        raise click.UsageError("--incognito begins a new chat; it cannot go on with a stored one.")
    settings = load_settings()
    chosen = choose_model(settings.model, base_url=base_url, model=model, environ=console.environ)
    question = sys.stdin.read() if query is None and not is_conversation else query
    if question is not None and not question.strip():
        raise InvalidInput("There is nothing to ask. Give a question: hermes chat -q 'Why?'")
    with _opened(console, is_conversation=is_conversation, incognito=incognito) as db:
        session_id = _wanted(db, continued, resumed)
        if chosen.is_local:
            from hermes_sessions.agent.clients import local_model

            local_model.fetch(say=console.tell)
        with closing(chosen.open()) as client:
            keeps_questions = question is None
            talk = ChatController(
                console,
                db,
                client,
                chosen,
                settings,
                session_id,
                keeps_questions=keeps_questions,
                is_incognito=incognito,
            )
            talk.outage.store_leftovers()
            try:
                with raise_on_termination():
                    if question is not None:
                        talk.ask_once(question)
                    else:
                        repl = ChatRepl(
                            talk, TerminalCommands(talk, console, chosen), console, settings
                        )
                        with buffered_keys() if can_prompt(console) else nullcontext():
                            repl.run()
            except TerminationRequested:
                talk.conversation.leave(CLOSED)
                raise
            finally:
                talk.outage.close()


def _opened(console: Console, *, is_conversation: bool, incognito: bool) -> SessionDB:
    """Open the store. Without it nothing is begun that could be lost: a chat needs its history.
    An incognito one has a store of its own, in memory.
    """
    if incognito:
        from hermes_sessions.cli.chat.incognito import open_in_memory

        return open_in_memory(console)
    try:
        return open_for_writing(console)
    except StoreError:
        if is_conversation:
            console.tell(
                "No conversation can begin or go on without the store; nothing was said, so "
                "nothing is lost. To see what is wrong: hermes doctor"
            )
        raise


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
