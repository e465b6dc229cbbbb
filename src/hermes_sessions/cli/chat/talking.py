"""One chat in a terminal: what is typed goes to the model or is a command, what comes is shown."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hermes_sessions.agent.clients.port import (
    ModelError,
    ModelRefused,
    ReasoningPiece,
    TextPiece,
    Usage,
)
from hermes_sessions.agent.commands import UnknownCommand, read_command
from hermes_sessions.agent.compaction import is_nearly_full
from hermes_sessions.agent.conversation import Conversation, Origin
from hermes_sessions.agent.titles import title_session
from hermes_sessions.agent.tools.builtin import default_tools
from hermes_sessions.agent.tools.registry import ToolRegistry
from hermes_sessions.agent.turn import Agent, Answered, Ended, ToolStarted, TurnEvent
from hermes_sessions.cli.chat.asking import Prompt, ask_lines
from hermes_sessions.cli.chat.doing import Commands
from hermes_sessions.cli.render.command import resume_line
from hermes_sessions.cli.render.quantity import counted
from hermes_sessions.cli.render.recap import recap
from hermes_sessions.cli.render.safety import one_line, piece
from hermes_sessions.errors import HermesSessionsError, InvalidInput
from hermes_sessions.recall.schema import SYSTEM_PROMPT_SENTENCE

if TYPE_CHECKING:
    from hermes_sessions.agent.clients.choosing import ChosenModel
    from hermes_sessions.agent.clients.port import ModelClient
    from hermes_sessions.cli.console import Console
    from hermes_sessions.config.settings import Settings
    from hermes_sessions.storage.sessiondb import SessionDB

CLOSED: Final = "cli_close"
_PROMPT: Final = "You are Hermes, a helpful assistant in a terminal. Be concise and accurate."
#: How long the end waits for a title that is being made.
_TITLE_SECONDS: Final = 3.0


class Talk:
    """A chat, from its first line to its last."""

    def __init__(
        self,
        console: Console,
        db: SessionDB,
        client: ModelClient,
        chosen: ChosenModel,
        settings: Settings,
        session_id: str | None,
    ) -> None:
        self._console = console
        self._db = db
        self._chosen = chosen
        self._settings = settings
        # The small local model calls no tools, and its prompt is short.
        tools = ToolRegistry() if chosen.is_local else default_tools()
        prompt = _PROMPT if chosen.is_local else f"{_PROMPT} {SYSTEM_PROMPT_SENTENCE}"
        agent = Agent(db, client, tools, model=chosen.model)
        self.conversation = Conversation(
            agent, Origin("cli", system_prompt=prompt), session_id, clock=console.clock
        )
        self._usage = Usage()
        self._titling: threading.Thread | None = None
        #: What was answered, where it is not shown as it comes.
        self._answer: list[str] = []

    # ── one question ──────────────────────────────────────────────────────────────────────────

    def ask_once(self, text: str) -> None:
        """Ask one question and print the answer alone, as text or JSON, to standard output.

        Raises:
            InvalidInput: nothing was asked.
            ModelError: the model failed; the question is stored.
        """
        if not text.strip():
            raise InvalidInput("There is nothing to ask. Give a question: hermes chat -q 'Why?'")
        ended = self._show(self.conversation.say(text.strip()))
        self._finish()
        self.conversation.leave(CLOSED)
        if self._console.as_json:
            self._console.print_json(
                {
                    "session_id": self.conversation.session_id,
                    "answer": "".join(self._answer),
                    "ended": "interrupted" if ended is None else ended.how,
                }
            )
        if ended is not None and ended.error is not None:
            raise ended.error

    # ── a conversation ────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Talk until the input ends or somebody leaves."""
        self._greet()
        commands = Commands(self.conversation, self._console, self._show, self._chosen)
        prompt = Prompt(self._settings.home, self._console)
        for line in ask_lines(prompt):
            typed = read_command(line, "cli")
            try:
                if typed is None:
                    self._say(line)
                elif isinstance(typed, UnknownCommand):
                    near = " or ".join(f"/{name}" for name in typed.near)
                    hint = f" Did you mean {near}?" if near else " /help shows them."
                    self._tell(f"There is no command /{typed.name}.{hint}")
                elif not commands.do(typed):
                    break
            except HermesSessionsError as error:
                self._tell(f"Error: {error}")
        self._finish()
        self._say_goodbye()

    def _greet(self) -> None:
        self._tell(self._chosen.description)
        session_id = self.conversation.session_id
        if session_id is None:
            self._tell("/help shows the commands, Ctrl-D leaves.")
            return
        messages = self._db.get_messages(session_id)
        if self._settings.display.resume_display == "full":
            self._console.print(recap(messages, self._console.style))
        title = self._db.get_session_title(session_id)
        named = f"{session_id} ({one_line(title)})" if title else session_id
        asked = sum(message["role"] == "user" for message in messages)
        said = f"{counted(asked, 'question')}, {counted(len(messages), 'message')}"
        self._tell(f"Going on with {named}: {said}." if messages else f"{named} is empty so far.")

    def _say(self, text: str) -> None:
        ended = self._show(self.conversation.say(text))
        if ended is not None and ended.how == "failed":
            self._recover(ended.error)
        self._name_in_background()
        self._make_room()

    def _recover(self, error: ModelError | None) -> None:
        if isinstance(error, ModelRefused) and error.too_long:
            self._tell("The session is too long for the model: it is summarised.")
            session_id = self.conversation.compress()
            ended = self._show(self.conversation.agent.answer(session_id))
            error = ended.error if ended is not None else None
        if error is not None:
            self._tell(f"Error: {error} What was said is stored; /retry asks again.")

    def _make_room(self) -> None:
        used = (self._usage.input_tokens or 0) + (self._usage.output_tokens or 0)
        length = self._chosen.context_length
        if length is not None and used and is_nearly_full(used, length):
            self._tell("The session is nearly as long as the model can read: it is summarised.")
            self.conversation.compress()
            self._usage = Usage()

    def _name_in_background(self) -> None:
        session_id = self.conversation.session_id
        if session_id is None or self._titling is not None:
            return
        agent = self.conversation.agent
        client = None if self._chosen.is_local else agent.client
        self._titling = threading.Thread(
            target=self._give_title, args=(session_id, client, agent.model), daemon=True
        )
        self._titling.start()

    def _give_title(self, session_id: str, client: ModelClient | None, model: str | None) -> None:
        try:
            title_session(self._db, session_id, client, model)
        except HermesSessionsError:
            # A title is a convenience; the session is found by its id and its text.
            return

    # ── showing ───────────────────────────────────────────────────────────────────────────────

    def _show(self, events: Iterator[TurnEvent]) -> Ended | None:
        """Show a turn as it happens; return how it ended, None when Ctrl-C ended it."""
        style = self._console.style
        ended: Ended | None = None
        is_line_open = False
        try:
            for event in events:
                if isinstance(event, TextPiece) and self._console.as_json:
                    self._answer.append(event.text)
                elif isinstance(event, TextPiece):
                    sys.stdout.write(piece(event.text))
                    is_line_open = not event.text.endswith("\n")
                elif isinstance(event, ReasoningPiece):
                    self._whisper(style.dim(piece(event.text)))
                elif isinstance(event, ToolStarted):
                    arguments = one_line(event.call.arguments)[:80]
                    self._tell(style.dim(f"· {event.call.name} {arguments}"))
                elif isinstance(event, Answered):
                    self._usage = event.reply.usage
                elif isinstance(event, Ended):
                    ended = event
                sys.stdout.flush()
        except KeyboardInterrupt:
            ended = None
        if is_line_open:
            sys.stdout.write("\n")
            sys.stdout.flush()
        if ended is None or ended.how == "interrupted":
            self._tell("Interrupted. What was said is kept.")
        elif ended.how == "too many steps":
            self._tell("The model called tools again and again, so the turn was ended.")
        return ended

    def _whisper(self, text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(text)
            sys.stderr.flush()

    def _tell(self, text: str) -> None:
        self._console.tell(text)

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def _finish(self) -> None:
        if self._titling is None:
            self._name_in_background()
        if self._titling is not None:
            self._titling.join(_TITLE_SECONDS)

    def _say_goodbye(self) -> None:
        session = self.conversation.leave(CLOSED)
        if session is None:
            return
        said = counted(session["message_count"], "message")
        self._tell(f"Stored: {session['id']}, {said}.")
        self._tell(f"To go on: {resume_line('--resume', session['id'])}")
        if session["title"]:
            self._tell(f"      or: {resume_line('-c', session['title'])}")
