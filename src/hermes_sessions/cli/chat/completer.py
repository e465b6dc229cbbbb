"""Completing what is typed after a slash: commands, sessions to go on with, forms of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes_sessions.agent.slash_commands import commands_for


class Suggestion(NamedTuple):
    """What can be written, and what it is."""

    text: str
    about: str = ""


class CommandCompleter(Completer):
    """Completes the first line, when it is a command."""

    def __init__(self, arguments: Callable[[str], Iterable[Suggestion]]) -> None:
        """*arguments* gives what can follow a command, by its name without the slash."""
        self._arguments = arguments

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield what can stand for the word, or the rest of the line, before the cursor."""
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
