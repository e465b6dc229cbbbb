"""``hermes chat``."""

from __future__ import annotations

import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from types import FrameType
from typing import TYPE_CHECKING

import click

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.options import pass_console
from hermes_sessions.cli.selection import workspace_here
from hermes_sessions.cli.session_lookup import find_session
from hermes_sessions.cli.store import open_for_writing
from hermes_sessions.errors import InvalidInput, NotFound, StoreError

if TYPE_CHECKING:
    from hermes_sessions.storage.sessiondb import SessionDB

#: The index of the local modes in the result of `termios.tcgetattr`.
_LOCAL_MODES = 3


@contextmanager
def buffered_keys() -> Iterator[None]:
    """Buffer keys for the next prompt without showing them; only Ctrl-C acts at once.

    Otherwise the terminal would collect them into lines, and Ctrl-D would end one.
    """
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    meanwhile = termios.tcgetattr(keyboard)
    meanwhile[_LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(keyboard, termios.TCSADRAIN, meanwhile)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


class TerminationRequested(SystemExit):
    """The process received SIGHUP or SIGTERM."""


@contextmanager
def raise_on_termination() -> Iterator[None]:
    """Let the first SIGHUP or SIGTERM unwind the block instead of ending the process at once.

    Raises TerminationRequested within the block, with the exit code of the signal.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}

    def unwind(number: int, _frame: FrameType | None) -> None:
        # A second signal ends the process at once.
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise TerminationRequested(128 + number)

    for number, handler in before.items():
        # A signal that is ignored, as under nohup, stays ignored.
        if handler is not signal.SIG_IGN:
            signal.signal(number, unwind)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command(short_help="Chat with a model; the same as hermes without a command.")
@click.option("-q", "--query", metavar="TEXT", help="Ask one question, print the answer and exit.")
@click.option(
    "-c",
    "--continue",
    "continued",
    metavar="[SESSION]",
    help="Continue a session: an id, the start of one, or a title; without a value, the latest.",
)
@click.option(
    "-r",
    "--resume",
    "resumed",
    metavar="SESSION",
    help="Continue this session: an id, the start of one, or a title.",
)
@click.option(
    "--here", is_flag=True, help="With -c: continue the latest session of this directory's project."
)
@click.option("-m", "--model", metavar="NAME", help="The model to use.")
@click.option("--base-url", metavar="URL", help="An OpenAI-compatible endpoint.")
@click.option("--incognito", is_flag=True, help="Store nothing; the chat is gone when you leave.")
@pass_console
def chat(
    console: Console,
    *,
    query: str | None,
    continued: str | None,
    resumed: str | None,
    here: bool,
    model: str | None,
    base_url: str | None,
    incognito: bool,
) -> None:
    """Chat with a model. Every message is stored at once, unless you use --incognito.

    Ctrl-C interrupts an answer and keeps its text, Ctrl-D leaves. /help shows the commands.
    Names of sessions may have several words without quotes.
    """
    # Imported here so that other commands start faster.
    from hermes_sessions.agent.clients.model_selection import choose_model
    from hermes_sessions.cli.chat.controller import CLOSED, ChatController
    from hermes_sessions.cli.chat.prompt import can_prompt
    from hermes_sessions.cli.chat.repl import ChatRepl
    from hermes_sessions.cli.chat.slash_command_handlers import TerminalCommands
    from hermes_sessions.config import load_settings

    is_conversation = query is None and sys.stdin.isatty()
    if is_conversation and console.as_json:
        raise click.UsageError("--json is for one question: hermes chat --json -q 'Why?'")
    if incognito and (continued is not None or resumed is not None):
        raise click.UsageError("--incognito starts a new chat; it cannot continue a stored one.")
    if here and (continued is None or continued.strip()):
        raise click.UsageError("--here continues the latest session of a project: hermes -c --here")
    settings = load_settings()
    chosen = choose_model(settings.model, base_url=base_url, model=model, environ=console.environ)
    question = sys.stdin.read() if query is None and not is_conversation else query
    if question is not None and not question.strip():
        raise InvalidInput("The question is empty. Example: hermes chat -q 'Why?'")
    with _open_store(console, is_conversation=is_conversation, incognito=incognito) as db:
        session_id = _session_to_continue(db, continued, resumed, here=here)
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
                talk.chat.leave(CLOSED)
                raise
            finally:
                talk.outage.close()


def _open_store(console: Console, *, is_conversation: bool, incognito: bool) -> SessionDB:
    """Open the store, which a chat needs for its history. An incognito chat has its own store in
    memory.
    """
    if incognito:
        from hermes_sessions.cli.chat.incognito import open_in_memory

        return open_in_memory(console)
    try:
        return open_for_writing(console)
    except StoreError:
        if is_conversation:
            console.tell(
                "A chat cannot start without the store. Nothing is lost. To find the cause: "
                "hermes doctor"
            )
        raise


def _session_to_continue(
    db: SessionDB, continued: str | None, resumed: str | None, *, here: bool
) -> str | None:
    """Return the session to continue, None to start a new one.

    Raises:
        NotFound, InvalidInput: no session matches, or several do; the message names similar ones.
    """
    name = resumed if resumed is not None else continued
    if name is None:
        return None
    if name.strip():
        session_id = find_session(db, name.strip())["id"]
    elif resumed is not None:
        raise click.UsageError("--resume needs a session: an id, the start of one, or a title.")
    else:
        workspace = workspace_here(db) if here else None
        latest = db.list_sessions_rich(
            source="cli", limit=1, include_archived=True, workspace=workspace
        )
        if not latest:
            place = " in this project" if here else ""
            raise NotFound(f"There is no session to continue{place} yet. Start one: hermes")
        session_id = latest[0]["id"]
    return db.resolve_resume_session_id(session_id)
