"""Completion of slash commands and their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes_sessions.agent.slash_commands import commands_for


class Suggestion(NamedTuple):
    """A suggested text, and its description."""

    text: str
    about: str = ""


class CommandCompleter(Completer):
    """Completes the first line if it is a command."""

    def __init__(self, arguments: Callable[[str], Iterable[Suggestion]]) -> None:
        """*arguments* yields suggestions for the argument of a command, given its name."""
        self._arguments = arguments

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield completions of the word, or of the rest of the line, before the cursor."""
        del complete_event
        line = document.text_before_cursor
        if not line.startswith("/") or "\n" in line:
            return
        word, blank, rest = line.partition(" ")
        if not blank:
            found: Iterable[Any] = (
                Suggestion(f"/{name}", command.summary)
                for command in commands_for("cli")
                for name in (command.name, *command.aliases)
            )
            typed = word
        else:
            found, typed = self._arguments(word[1:].lower()), rest.lstrip()
        for candidate in found:
            if candidate.text.lower().startswith(typed.lower()):
                yield Completion(
                    candidate.text, start_position=-len(typed), display_meta=candidate.about
                )
