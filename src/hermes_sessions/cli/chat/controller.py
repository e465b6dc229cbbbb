"""A chat with a model: sends messages, shows answers, compacts and titles the session."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hermes_sessions.agent.chat import Chat, Origin
from hermes_sessions.agent.chat_spool import STORE_UNAVAILABLE_ERRORS
from hermes_sessions.agent.clients.port import ModelRefused
from hermes_sessions.agent.compaction import estimated_tokens, is_nearly_full
from hermes_sessions.agent.interrupts import Interrupt
from hermes_sessions.agent.title_generator import title_session
from hermes_sessions.agent.tools.builtin import default_tools
from hermes_sessions.agent.tools.registry import ToolRegistry
from hermes_sessions.agent.turn import Agent, Ended
from hermes_sessions.cli.chat.incognito import LEFT, ON, IncognitoOutageHandler
from hermes_sessions.cli.chat.outage import OutageHandler
from hermes_sessions.cli.chat.turn_view import TurnView
from hermes_sessions.cli.render.chat import recap, wrapped
from hermes_sessions.cli.render.humanize import counted
from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.shell_commands import resume_line
from hermes_sessions.errors import (
    ConversationHeld,
    HermesSessionsError,
    InvalidInput,
    StaleFence,
)
from hermes_sessions.recall.tool_schema import SYSTEM_PROMPT_SENTENCE

if TYPE_CHECKING:
    from hermes_sessions.agent.clients.model_selection import ChosenModel
    from hermes_sessions.agent.clients.port import ModelClient
    from hermes_sessions.cli.console import Console
    from hermes_sessions.config.settings import Settings
    from hermes_sessions.storage.records import MessageRecord
    from hermes_sessions.storage.sessiondb import SessionDB

CLOSED: Final = "cli_close"
_PROMPT: Final = "You are Hermes, a helpful assistant in a terminal. Be concise and accurate."
#: The longest wait for a title when the chat ends, in seconds.
_TITLE_SECONDS: Final = 3.0


class ChatController:
    """One chat: a single question, or a conversation except for reading its input."""

    def __init__(
        self,
        console: Console,
        db: SessionDB,
        client: ModelClient,
        chosen: ChosenModel,
        settings: Settings,
        session_id: str | None,
        *,
        keeps_questions: bool = True,
        is_incognito: bool = False,
    ) -> None:
        """*keeps_questions* says whether questions that cannot be stored are spooled or rejected;
        see `OutageHandler`. *is_incognito* says that *db* is in memory and nothing may be written
        to disk.
        """
        self.is_incognito = is_incognito
        self._console = console
        self._db = db
        self._chosen = chosen
        self._settings = settings
        # The small local model calls no tools and needs a short prompt.
        tools = ToolRegistry() if chosen.is_local else default_tools()
        prompt = _PROMPT if chosen.is_local else f"{_PROMPT} {SYSTEM_PROMPT_SENTENCE}"
        directory = None if is_incognito else _working_directory()
        origin = Origin("cli", system_prompt=prompt, holder=_this_chat(), cwd=directory)
        self.outage = (
            IncognitoOutageHandler(console)
            if is_incognito
            else OutageHandler(console, db, settings, origin, keeps_questions=keeps_questions)
        )
        agent = Agent(
            db,
            client,
            tools,
            model=chosen.model,
            pricing=chosen.pricing,
            unstored=self._keep,
        )
        self.chat = Chat(agent, origin, session_id, clock=console.clock)
        self._view = TurnView(console)
        self._titling: threading.Thread | None = None
        #: Sessions that got a title here, or need none.
        self._titled: set[str] = set()

    # ── one question ──────────────────────────────────────────────────────────────────────────

    def ask_once(self, text: str) -> None:
        """Ask one question and print only the answer, as text or JSON, to standard output.

        Raises:
            InvalidInput: the question is empty.
            ModelError: the model failed; the question is stored.
            KeyboardInterrupt: the user interrupted; the partial answer is stored.
        """
        if not text.strip():
            raise InvalidInput("The question is empty. Example: hermes chat -q 'Why?'")
        try:
            ended = self._run_turn(text.strip(), Interrupt())
        except STORE_UNAVAILABLE_ERRORS:
            self.outage.report_pending()
            raise
        self._finish()
        self.chat.leave(CLOSED)
        if self._console.as_json:
            self._console.print_json(
                {
                    "session_id": self.chat.session_id,
                    "answer": "".join(self._view.answer),
                    "ended": "interrupted" if ended is None else ended.how,
                }
            )
        if ended is None:
            raise KeyboardInterrupt
        if ended.error is not None:
            raise ended.error

    # ── a conversation ────────────────────────────────────────────────────────────────────────

    def greet(self) -> None:
        """Print the model and the session that continues."""
        self._tell(f"Model: {self._chosen.description}")
        if self.is_incognito:
            self._tell(ON)
        session_id = self.chat.session_id
        if session_id is None:
            self._tell("/help shows the commands, Ctrl-C interrupts an answer, Ctrl-D leaves.")
            return
        messages = self.recall(session_id)
        title = self._db.get_session_title(session_id)
        named = f"{session_id} ({one_line(title)})" if title else session_id
        asked = sum(message["role"] == "user" for message in messages)
        said = f"{counted(asked, 'question')}, {counted(len(messages), 'message')}"
        self._tell(f"Continuing {named}: {said}." if messages else f"{named} has no messages yet.")

    def recall(self, session_id: str) -> list[MessageRecord]:
        """Return the messages of a continued session; show the last ones if so configured."""
        messages = self._db.get_messages(session_id)
        if self._settings.display.resume_display == "full":
            self._console.print(recap(messages, self._console.style))
        return messages

    def say(
        self, text: str, interrupt: Interrupt, steering: Callable[[], str | None] = lambda: None
    ) -> bool:
        """Send a message and show the answer, or the error. The message is stored, or spooled
        while the store is unavailable; return False if it is neither.

        See `Agent.run_turn`.
        """
        try:
            self._catch_up(text)
            ended = self._run_turn(text, interrupt, steering)
        except STORE_UNAVAILABLE_ERRORS as error:
            return self.outage.failed(error)
        self.outage.worked()
        if ended is not None and ended.error is not None:
            kept = "is in this chat" if self.is_incognito else "is stored"
            self._tell(f"Error: {ended.error} Your message {kept}; /retry asks again.")
        self._compact_if_needed(interrupt)
        return True

    def _catch_up(self, text: str) -> None:
        """Store spooled messages first; spool this one, too, while the store is unavailable.

        Raises as `OutageHandler.catch_up`.
        """
        try:
            self.outage.catch_up(self.chat)
        except STORE_UNAVAILABLE_ERRORS:
            self.chat.keep(text)
            raise

    def _keep(self, session_id: str, message: Mapping[str, Any], fence: int | None) -> None:
        self.outage.keep(session_id, message, fence, self.chat.agent.asked_model)

    def retry(self, interrupt: Interrupt) -> Ended | None:
        """Ask the last question again and show the answer; return how the turn ended. None if
        Ctrl-C ended it, or if the store was unavailable, which is shown.
        """
        try:
            self.outage.catch_up(self.chat)
            ended = self._view.show(self.chat.retry(interrupt=interrupt))
        except STORE_UNAVAILABLE_ERRORS as error:
            self.outage.failed(error)
            return None
        self.outage.worked()
        return ended

    def goodbye(self) -> None:
        """End the session and print how to resume it."""
        self._finish()
        try:
            self.outage.catch_up(self.chat)
            session = self.chat.leave(CLOSED)
        except (*STORE_UNAVAILABLE_ERRORS, ConversationHeld, StaleFence) as error:
            self._tell(f"The end of the session could not be stored: {error}")
            self.outage.report_pending()
            return
        if self.is_incognito:
            self._tell(LEFT)
            return
        if session is None:
            return
        said = counted(session["message_count"], "message")
        self._tell(f"Stored: {session['id']}, {said}.")
        # Not wrapped, so that it can be copied.
        self._console.tell(f"To continue: {resume_line('--resume', session['id'])}")
        if session["title"]:
            self._console.tell(f"         or: {resume_line('-c', session['title'])}")

    # ── answers ───────────────────────────────────────────────────────────────────────────────

    def _run_turn(
        self, text: str, interrupt: Interrupt, steering: Callable[[], str | None] = lambda: None
    ) -> Ended | None:
        """Send a message, after compacting a session that is too long; return how the turn ended,
        None if Ctrl-C ended it.
        """
        events = self.chat.say(text, interrupt=interrupt, steering=steering)
        ended = self._view.show(events)
        error = ended.error if ended is not None else None
        if isinstance(error, ModelRefused) and error.too_long:
            self._tell("The session is too long for the model. Summarising it.")
            with self.chat.held(interrupt):
                self.chat.compress(interrupt=interrupt)
                ended = self._view.show(self.chat.answer(interrupt=interrupt))
        self._title_in_background()
        return ended

    def _compact_if_needed(self, interrupt: Interrupt) -> None:
        model = self.chat.agent.model
        length = replace(self._chosen, model=model).context_length
        if length is not None and is_nearly_full(self._used_tokens(), length):
            self._tell("The session has nearly reached the context limit. Summarising it.")
            self.chat.compress(interrupt=interrupt)

    def _used_tokens(self) -> int:
        """Return the tokens that the last answer used, estimated if the endpoint reports none;
        0 without an answer.
        """
        usage, session_id = self._view.usage, self.chat.session_id
        if usage is None or session_id is None:
            return 0
        counted = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        return counted or estimated_tokens(self._db.get_messages_as_conversation(session_id))

    def _title_in_background(self) -> None:
        session_id = self.chat.session_id
        if session_id is None or session_id in self._titled:
            return
        self._titled.add(session_id)
        agent = self.chat.agent
        client = None if self._chosen.is_local else agent.client
        self._titling = threading.Thread(
            target=self._give_title, args=(session_id, client, agent), daemon=True
        )
        self._titling.start()

    def _give_title(self, session_id: str, client: ModelClient | None, agent: Agent) -> None:
        try:
            title_session(self._db, session_id, client, agent.model, agent.pricing)
        except HermesSessionsError:
            # A title is a convenience: the session can be found by its id and its text.
            return

    def _tell(self, text: str) -> None:
        self._console.tell(wrapped(text, self._console.style, "  "))

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def _finish(self) -> None:
        if self._titling is not None:
            self._titling.join(_TITLE_SECONDS)


def _working_directory() -> str | None:
    """Return the directory of this chat; None if it was deleted."""
    try:
        return str(Path.cwd())
    except OSError:
        return None


def _this_chat() -> str:
    """Return the holder of this chat's leases, as other processes show it."""
    process = f"process {os.getpid()} on {socket.gethostname()}"
    try:
        return f"the chat in {os.ttyname(sys.stdin.fileno())} ({process})"
    except (OSError, ValueError):
        return f"a chat without a terminal ({process})"
