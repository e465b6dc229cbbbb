"""Shows a turn in the terminal while it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hermes_sessions.agent.clients.port import ReasoningPiece, RetryWait, TextPiece, Usage
from hermes_sessions.agent.turn import Answered, Ended, ToolStarted, TurnEvent
from hermes_sessions.cli.render.safe_text import one_line, piece

if TYPE_CHECKING:
    from hermes_sessions.cli.console import Console

_LONGEST_ARGUMENTS = 80


class TurnView:
    """The output of turns: the answer on standard output, the rest on standard error."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_line_open = False
        self._is_thought_open = False
        #: The answer, if it is not printed piece by piece.
        self.answer: list[str] = []
        #: The tokens of the last call of this turn, None before it.
        self.usage: Usage | None = None

    def show(self, events: Iterator[TurnEvent]) -> Ended | None:
        """Show a turn; return how it ended, None if Ctrl-C ended it."""
        ended: Ended | None = None
        self.usage = None
        try:
            for event in events:
                if isinstance(event, Ended):
                    ended = event
                self._show_one(event)
                sys.stdout.flush()
        except KeyboardInterrupt:
            ended = None
        finally:
            self._end_line()
        if ended is None or ended.how == "interrupted":
            self._console.tell("Interrupted. The text so far is kept.")
        elif ended.how == "too many steps":
            self._console.tell("Stopped the turn: the model called tools too many times.")
        return ended

    def _show_one(self, event: TurnEvent) -> None:
        style = self._console.style
        if self._is_thought_open and not isinstance(event, ReasoningPiece):
            self._is_thought_open = False
            self._show_dim("\n")
        if isinstance(event, TextPiece) and self._console.as_json:
            self.answer.append(event.text)
        elif isinstance(event, TextPiece):
            sys.stdout.write(piece(event.text))
            self._is_line_open = not event.text.endswith("\n")
        elif isinstance(event, ReasoningPiece):
            self._show_dim(style.dim(piece(event.text)))
            self._is_thought_open = not event.text.endswith("\n")
        elif isinstance(event, RetryWait):
            self._console.tell(style.dim(waiting_line(event)))
        elif isinstance(event, ToolStarted):
            arguments = one_line(event.call.arguments)[:_LONGEST_ARGUMENTS]
            self._console.tell(style.dim(f"· {event.call.name} {arguments}"))
        elif isinstance(event, Answered):
            self.usage = event.reply.usage

    def _end_line(self) -> None:
        if self._is_line_open:
            self._is_line_open = False
            sys.stdout.write("\n")
            sys.stdout.flush()

    def _show_dim(self, text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(text)
            sys.stderr.flush()


def waiting_line(event: RetryWait) -> str:
    """Return the line that is shown while an endpoint is retried."""
    seconds = f"{event.seconds:.1f}" if event.seconds < 1 else f"{event.seconds:.0f}"
    return one_line(
        f"{event.reason} Waiting {seconds} s, then attempt {event.attempt} of {event.attempts}."
    )
