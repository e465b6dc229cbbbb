"""Reading what somebody types: with history and completion on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from hermes_sessions.agent.commands import commands_for

if TYPE_CHECKING:
    from hermes_sessions.cli.console import Console

_SIGN: Final = "❯ "
_PLAIN_SIGN: Final = "> "


class Asks(Protocol):
    """Something that can be asked for a line."""

    def ask(self) -> str:
        """Return what was typed.

        Raises:
            EOFError: the input has ended.
            KeyboardInterrupt: the line was given up.
        """


def ask_lines(prompt: Asks) -> Iterator[str]:
    """Yield what is typed until the input ends; a line that was given up is asked for anew."""
    while True:
        try:
            text = prompt.ask()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.strip():
            yield text.strip()


class Prompt:
    """The line at the bottom. Enter sends; Alt-Enter, or a backslash at the end, goes on."""

    def __init__(self, home: Path, console: Console) -> None:
        self._sign = _PLAIN_SIGN if console.style.ascii_only else _SIGN
        self._session = None if console.plain else _with_history(home)

    def ask(self) -> str:
        """See `Asks.ask`."""
        parts: list[str] = []
        while True:
            sign = self._sign if not parts else "  "
            line = self._session.prompt(sign) if self._session else _plain_line(sign)
            if not line.endswith("\\"):
                return "\n".join([*parts, line])
            parts.append(line[:-1])


def _plain_line(sign: str) -> str:
    sys.stderr.write(sign)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _with_history(home: Path) -> Any:
    """Return a prompt of prompt_toolkit, None where it is not installed."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings
    except ModuleNotFoundError:
        return None
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    names = {f"/{command.name}": command.summary for command in commands_for("cli")}
    completer = WordCompleter(list(names), meta_dict=names, sentence=True)
    history = _history_file(home)
    return PromptSession(
        history=FileHistory(str(history)) if history else InMemoryHistory(),
        completer=completer,
        complete_while_typing=False,
        key_bindings=keys,
    )


def _history_file(home: Path) -> Path | None:
    """Return a private file for what was typed; None where there can be none."""
    path = home / "chat_history"
    try:
        path.touch(mode=0o600, exist_ok=True)
    except OSError:
        return None
    return path
