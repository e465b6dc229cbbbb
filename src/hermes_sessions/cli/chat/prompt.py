"""Reads the user's input: plain lines, or a prompt with history and completion."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from hermes_sessions.cli.render.safe_text import piece

if TYPE_CHECKING:
    from hermes_sessions.cli.chat.completer import Suggestion
    from hermes_sessions.cli.chat.screen import Screen
    from hermes_sessions.cli.console import Console

_SIGN: Final = "❯ "
_PLAIN_SIGN: Final = "> "
_FURTHER: Final = "  "
#: The most rows of an unfinished answer above the prompt.
_LEAST_ROWS: Final = 3


class LineReader(Protocol):
    """A source of lines."""

    def ask(self) -> str:
        """Return the next line.

        Raises:
            EOFError: the input has ended.
            KeyboardInterrupt: the user cancelled the line.
        """

    def give_back(self, text: str) -> None:
        """Offer a text that could not be used for editing again, if the prompt is empty.
        Thread-safe.
        """


def read_lines(prompt: LineReader) -> Iterator[str]:
    """Yield lines until the input ends; after a cancelled line, ask again."""
    while True:
        try:
            text = prompt.ask()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.strip():
            yield text.strip()


class StdinReader:
    """Standard input line by line, without a full terminal."""

    def __init__(self, state: Callable[[], str] = lambda: "") -> None:
        """*state* returns the text before the prompt sign."""
        self._state = state

    def ask(self) -> str:
        """See `LineReader.ask`. A backslash at the end continues in the next line."""
        try:
            return self._read()
        except (EOFError, KeyboardInterrupt):
            sys.stderr.write("\n")  # later output begins on its own line
            raise

    def _read(self) -> str:
        parts: list[str] = []
        while True:
            sys.stderr.write(_FURTHER if parts else f"{self._state()}{_PLAIN_SIGN}")
            sys.stderr.flush()
            line = sys.stdin.readline()
            if not line:
                raise EOFError
            line = line.rstrip("\n")
            if not line.endswith("\\"):
                return "\n".join([*parts, line])
            parts.append(line[:-1])

    def give_back(self, text: str) -> None:
        """See `LineReader.give_back`. The text is still visible above, so nothing to do."""


class Prompt:
    """The prompt at the bottom of a terminal, which stays while an answer arrives.

    Enter sends; Alt-Enter, or a backslash at the end, starts a new line. Ctrl-C interrupts the
    answer or, without one, cancels the line.
    """

    def __init__(
        self,
        home: Path | None,
        console: Console,
        screen: Screen,
        *,
        is_busy: Callable[[], bool],
        interrupt: Callable[[], bool],
        arguments: Callable[[str], Iterable[Suggestion]],
        state: Callable[[], str] = lambda: "",
    ) -> None:
        """*arguments* yields suggestions for the argument of a command; *state* returns the text
        before the prompt sign.
        """
        self._state = state
        self._screen = screen
        self._is_busy = is_busy
        self._sign = _PLAIN_SIGN if console.style.ascii_only else _SIGN
        self._ellipsis = console.style.ellipsis
        self._session = _session(home, interrupt, arguments)
        #: The initial text of the line.
        self._given_back = ""

    def ask(self) -> str:
        """See `LineReader.ask`. The typed line remains visible above later output."""
        parts: list[str] = []
        while True:
            with self._screen.beside(self._session.app):
                line = self._session.prompt(self._message(parts), pre_run=self._begin)
            parts.append(line.removesuffix("\\"))
            if not line.endswith("\\"):
                break
        # Pasted text may contain control sequences: print it safely, return it unchanged.
        shown = f"\n{_FURTHER}".join(piece("\n".join(parts)).split("\n"))
        self._screen.write_above_prompt(f"{self._sign}{shown}\n")
        return "\n".join(parts)

    def give_back(self, text: str) -> None:
        """See `LineReader.give_back`."""
        # Either the event loop runs now, or `_begin` is called later.
        self._given_back = text
        self._soon(self._take_back)

    def _begin(self) -> None:
        self._screen.refresh()
        self._take_back()

    def _take_back(self) -> None:
        text, self._given_back = self._given_back, ""
        if text and not self._session.default_buffer.text:
            self._session.default_buffer.insert_text(text)

    def end(self, error: BaseException) -> None:
        """Make a waiting `ask` raise this error; thread-safe."""
        self._soon(_leave, self._session.app, error)

    def _soon(self, do: Callable[..., None], *arguments: object) -> None:
        """Call a function in the thread that waits in `ask`, if one does."""
        loop = self._session.app.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(do, *arguments)

    def _message(self, parts: list[str]) -> Callable[[], Any]:
        from prompt_toolkit.formatted_text import ANSI

        from hermes_sessions.cli.chat.screen import rows

        def message() -> ANSI:
            size = self._session.output.get_size()
            unfinished = self._screen.unfinished
            shown = rows(unfinished, size.columns, max(size.rows // 2, _LEAST_ROWS))
            busy = f"{self._ellipsis} " if self._is_busy() else ""
            sign = f"{self._state()}{busy}{self._sign}"
            lines = piece("\n".join(parts)).split("\n") if parts else []
            said = [f"{sign}{line}" for line in lines[:1]]
            said += [f"{_FURTHER}{line}" for line in lines[1:]]
            return ANSI("\n".join([*shown, *said, _FURTHER if parts else sign]))

        return message


def _leave(application: Any, error: BaseException) -> None:
    if application.is_running and not application.future.done():
        application.exit(exception=error)


def can_prompt(console: Console) -> bool:
    """Tell whether this terminal can keep a prompt below the output."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if console.plain or console.environ.get("TERM") == "dumb":
        return False
    if not all(stream.isatty() for stream in streams):
        return False
    try:
        import prompt_toolkit  # noqa: F401 - installed with an extra
    except ModuleNotFoundError:
        return False
    return True


def _session(
    home: Path | None,
    interrupt: Callable[[], bool],
    arguments: Callable[[str], Iterable[Suggestion]],
) -> Any:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings

    from hermes_sessions.cli.chat.completer import CommandCompleter

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _(event: Any) -> None:
        if not interrupt():
            event.app.exit(exception=KeyboardInterrupt)

    history = _history_file(home)
    return PromptSession(
        history=FileHistory(str(history)) if history else InMemoryHistory(),
        completer=CommandCompleter(arguments),
        complete_while_typing=False,
        key_bindings=keys,
        erase_when_done=True,
    )


def _history_file(home: Path | None) -> Path | None:
    """Return the private file of the input history; None if there is none."""
    if home is None:
        return None
    path = home / "chat_history"
    try:
        path.touch(mode=0o600, exist_ok=True)
    except OSError:
        return None
    return path
