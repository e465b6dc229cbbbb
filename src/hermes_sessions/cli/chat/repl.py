"""The loop of a chat in the terminal: each line is a message or a command, run now or queued."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hermes_sessions.agent.interrupts import Interrupt
from hermes_sessions.agent.slash_commands import TypedCommand, UnknownCommand, parse_command
from hermes_sessions.cli.chat.job_queue import BackgroundJobQueue, ImmediateJobQueue, Job, JobQueue
from hermes_sessions.cli.chat.prompt import LineReader, Prompt, StdinReader, can_prompt, read_lines
from hermes_sessions.cli.render.chat import wrapped
from hermes_sessions.errors import ConversationHeld, HermesSessionsError

if TYPE_CHECKING:
    from hermes_sessions.cli.chat.controller import ChatController
    from hermes_sessions.cli.chat.slash_command_handlers import TerminalCommands
    from hermes_sessions.cli.console import Console
    from hermes_sessions.config.settings import Settings


class ChatRepl:
    """Reads lines until the input ends or the user leaves."""

    def __init__(
        self, talk: ChatController, commands: TerminalCommands, console: Console, settings: Settings
    ) -> None:
        self._chat = talk
        self._commands = commands
        self._console = console
        self._settings = settings
        self._turns: JobQueue = ImmediateJobQueue(self._do)
        commands.jobs = self._turns
        self._prompt: LineReader = StdinReader(lambda: talk.outage.sign)

    def run(self) -> None:
        """Run the chat, from the greeting to the hint how to resume it."""
        if can_prompt(self._console):
            self._run_with_prompt()
        else:
            self._chat.greet()
            self._converse(self._prompt)
        self._chat.goodbye()

    def _run_with_prompt(self) -> None:
        from hermes_sessions.cli.chat.screen import Screen

        screen = Screen(sys.stdout)
        turns = BackgroundJobQueue(self._do, screen.refresh)
        prompt = Prompt(
            None if self._chat.is_incognito else self._settings.home,
            self._console,
            screen,
            is_busy=lambda: turns.is_busy,
            interrupt=turns.interrupt,
            arguments=self._commands.arguments,
            state=lambda: self._chat.outage.sign,
        )
        self._prompt = prompt
        turns.on_failure = prompt.end
        self._turns = self._commands.jobs = turns
        with screen.captures_output():
            try:
                self._chat.greet()
                self._converse(prompt)
            finally:
                dropped = turns.drop()
                turns.close()
            self._commands.tell_dropped(dropped)
        if turns.failure is not None:
            raise turns.failure

    def _converse(self, prompt: LineReader) -> None:
        for line in read_lines(prompt):
            try:
                if not self._handle(line):
                    return
            except KeyboardInterrupt:
                self._tell("Interrupted.")
            except HermesSessionsError as error:
                self._tell(f"Error: {error}")

    # ── a line ────────────────────────────────────────────────────────────────────────────────

    def _handle(self, line: str) -> bool:
        """Handle a line; return whether the chat continues."""
        typed = parse_command(line, "cli")
        if typed is None:
            self._say(line)
        elif isinstance(typed, UnknownCommand):
            near = " or ".join(f"/{name}" for name in typed.near)
            hint = f" Did you mean {near}?" if near else " /help shows all commands."
            self._tell(f"There is no command /{typed.name}.{hint}")
        elif self._turns.is_busy and "cli" not in typed.command.while_busy:
            self._turns.add(Job(command=typed))
            self._tell(f"/{typed.command.name} runs after this answer.")
        elif "cli" in typed.command.as_turn:
            self._turns.add(Job(command=typed))
        else:
            self._commands.run(typed, Interrupt())
        return not self._commands.is_leaving

    def _say(self, text: str) -> None:
        if not self._turns.is_busy:
            self._turns.add(Job(text))
        elif self._settings.display.busy_input_mode == "interrupt":
            self._turns.follow(text)
        else:
            self._turns.add(Job(text, is_open=True))
            is_steering = self._settings.display.busy_input_mode == "steer"
            when = "after the next tool call, or after" if is_steering else "after"
            self._tell(f"Queued: sent {when} this answer.")

    # ── a turn ────────────────────────────────────────────────────────────────────────────────

    def _do(self, job: Job, interrupt: Interrupt) -> None:
        """Run a queued job; print expected errors."""
        try:
            if isinstance(job.command, TypedCommand):
                self._commands.run(job.command, interrupt)
            else:
                is_steering = self._settings.display.busy_input_mode == "steer"
                steering = self._turns.take_open if is_steering else _nothing
                if not self._chat.say(job.text, interrupt, steering):
                    self._prompt.give_back(job.text)
        except ConversationHeld as error:
            self._tell(f"Not done: {error}")
            if job.text:
                self._prompt.give_back(job.text)
        except HermesSessionsError as error:
            self._tell(f"Error: {error}")

    def _tell(self, text: str) -> None:
        self._console.tell(wrapped(text, self._console.style, "  "))


def _nothing() -> None:
    return None
