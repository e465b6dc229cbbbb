"""The slash commands: one declaration each, for every surface.

To add a command, declare it in `COMMANDS` and write its handler in ``slash_command_handlers.py`` of
each surface that offers it (``cli/chat`` for the terminal, ``gateway`` for messengers). Everything
else reads the declaration: parsing, help, completion, the menus of messengers, recovery after a
crash, and the table in ``docs/commands.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Literal, NamedTuple, TypeVar

Surface = Literal["cli", "gateway"]

BOTH: Final[tuple[Surface, ...]] = ("cli", "gateway")
TERMINAL: Final[tuple[Surface, ...]] = ("cli",)
MESSENGERS: Final[tuple[Surface, ...]] = ("gateway",)

#: What a command changes; shown in the documentation.
Change = Literal[
    "nothing",
    "the title",
    "the current session",
    "the messages",
    "the queue",
    "a file",
    "the model",
    "the gateway",
]
#: Whether a command may run again after a process died while it ran: always, only while no message
#: has followed it, or never. A command that never may is reported to its sender instead.
Repeat = Literal["always", "before the next message", "never"]


@dataclass(frozen=True, slots=True)
class Command:
    """One command: how it is written, what it does, and where and when it works."""

    name: str
    summary: str
    arguments: str = ""
    surfaces: tuple[Surface, ...] = BOTH
    #: Where it runs at once although an answer is being written; elsewhere it waits.
    while_busy: tuple[Surface, ...] = ()
    aliases: tuple[str, ...] = ()
    changes: Change = "nothing"
    repeat: Repeat = "never"
    #: Where it takes a turn of its own, like a message, because it asks the model and needs the
    #: session for itself.
    as_turn: tuple[Surface, ...] = ()
    #: Its argument is a message that is delivered this way if an answer is being written.
    delivers: Literal["queue", "steer"] | None = None
    #: What the terminal suggests as its argument.
    suggests: Literal["sessions", "export formats"] | None = None

    @property
    def usage(self) -> str:
        """How it is written, with its arguments."""
        return f"/{self.name} {self.arguments}".rstrip()

    def may_repeat(self, *, is_too_late: bool) -> bool:
        """Tell whether it may run again after a crash; *is_too_late* if a message followed it."""
        return self.repeat == "always" or (
            self.repeat == "before the next message" and not is_too_late
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Its name, then its aliases."""
        return (self.name, *self.aliases)


COMMANDS: Final = (
    Command("help", "Show the commands.", while_busy=BOTH, repeat="always"),
    Command(
        "new",
        "Start a new session.",
        "[title]",
        aliases=("reset",),
        while_busy=MESSENGERS,  # it stops the answer that is being written
        changes="the current session",
        repeat="before the next message",
    ),
    Command(
        "title",
        "Show or set the title.",
        "[text]",
        while_busy=BOTH,
        changes="the title",
        repeat="before the next message",
    ),
    Command("sessions", "List recent sessions.", while_busy=BOTH, repeat="always"),
    Command(
        "resume",
        "Continue another session.",
        "[number | id | title]",
        changes="the current session",
        suggests="sessions",
    ),
    Command("search", "Search all sessions.", "<query>", while_busy=BOTH, repeat="always"),
    Command(
        "compress",
        "Summarise the session and continue with the summary.",
        "[focus]",
        changes="the current session",
        as_turn=BOTH,
    ),
    Command(
        "retry",
        "Ask the last question again.",
        changes="the messages",
        as_turn=TERMINAL,  # on messengers it puts the question back into the queue
    ),
    Command("undo", "Undo the last exchanges.", "[number]", changes="the messages"),
    Command(
        "branch",
        "Continue in a copy and keep this session as it is.",
        "[title]",
        changes="the current session",
    ),
    Command(
        "handoff",
        "Continue this session on a messenger.",
        "<platform>",
        surfaces=TERMINAL,
        changes="the current session",
    ),
    Command(
        "queue",
        "Send a message after the current answer.",
        "<text>",
        while_busy=BOTH,
        changes="the queue",
        delivers="queue",
    ),
    Command(
        "steer",
        "Add a message to the current answer, after its next step.",
        "<text>",
        surfaces=MESSENGERS,
        while_busy=MESSENGERS,
        changes="the queue",
        delivers="steer",
    ),
    Command(
        "stop",
        "Stop the answer and drop queued messages.",
        while_busy=BOTH,
        changes="the queue",
        repeat="before the next message",
    ),
    Command("status", "Show the session and the model.", while_busy=BOTH, repeat="always"),
    Command("usage", "Show tokens and cost.", while_busy=BOTH, repeat="always"),
    Command(
        "export",
        "Write the session to a file.",
        "[jsonl | md | html] [file]",
        surfaces=TERMINAL,
        changes="a file",
        suggests="export formats",
    ),
    Command(
        "incognito",
        "Show whether this chat is stored.",
        surfaces=TERMINAL,
        while_busy=TERMINAL,
        repeat="always",
    ),
    Command(
        "model",
        "Show the model, or use another one.",
        "[name]",
        changes="the model",
        repeat="always",
    ),
    Command(
        "restart",
        "Restart the gateway.",
        surfaces=MESSENGERS,
        while_busy=MESSENGERS,
        changes="the gateway",
    ),
    Command(
        "quit",
        "Leave the chat.",
        surfaces=TERMINAL,
        while_busy=TERMINAL,
        aliases=("exit", "q"),
        repeat="always",
    ),
)

_BY_NAME: Final = {name: command for command in COMMANDS for name in command.names}


class TypedCommand(NamedTuple):
    """A command as a user typed it."""

    command: Command
    argument: str


class UnknownCommand(NamedTuple):
    """Text that looks like a command but is not one; *near* are the names it may mean."""

    name: str
    near: tuple[str, ...]


def parse_command(text: str, surface: Surface) -> TypedCommand | UnknownCommand | None:
    """Return the command that *text* is, or None when it is a message.

    A command begins with ``/`` and a letter on the first line: ``/tmp/x`` and ``//`` are messages.
    Names are recognised in any case, with or without ``@name`` behind them.
    """
    first, _, rest = text.strip().partition("\n")
    word, _, argument = first.partition(" ")
    name = word[1:].partition("@")[0].lower()
    if not word.startswith("/") or not name.isalpha():
        return None
    command = find_command(name, surface)
    if command is None:
        return UnknownCommand(name, _similar_names(name, surface))
    return TypedCommand(command, f"{argument}\n{rest}".strip())


def find_command(name: str, surface: Surface) -> Command | None:
    """Return the command with this name or alias, or None if *surface* does not offer one."""
    command = _BY_NAME.get(name)
    return command if command is not None and surface in command.surfaces else None


def commands_for(surface: Surface) -> tuple[Command, ...]:
    """Return the commands of one surface, in the order in which help shows them."""
    return tuple(command for command in COMMANDS if surface in command.surfaces)


def _similar_names(name: str, surface: Surface) -> tuple[str, ...]:
    from difflib import get_close_matches

    names = [known for known, command in _BY_NAME.items() if surface in command.surfaces]
    beginning = [known for known in names if name and known.startswith(name)]
    return tuple(beginning or get_close_matches(name, names, n=2))


Handler = TypeVar("Handler", bound=Callable[..., object])


class CommandHandlers(Generic[Handler]):
    """The handlers of declared commands, each found by its command.

    A module makes one, decorates its handlers with it, and calls `require_all` at its end. So it
    cannot be imported while a command has no handler or a handler has no command.
    """

    def __init__(self, commands: Iterable[Command]) -> None:
        """*commands* are those that need a handler here."""
        self._commands = {command.name: command for command in commands}
        self._handlers: dict[str, Handler] = {}

    def __call__(self, name: str) -> Callable[[Handler], Handler]:
        """Register the decorated function as the handler of a command.

        Raises:
            LookupError: no such command is declared for this surface, or it has a handler already.
        """
        if name not in self._commands:
            raise LookupError(f"/{name} is not a command that is declared for this surface")
        if name in self._handlers:
            raise LookupError(f"/{name} has two handlers")

        def register(handler: Handler) -> Handler:
            self._handlers[name] = handler
            return handler

        return register

    def __getitem__(self, command: Command) -> Handler:
        """Return the handler of a command; raises `LookupError` if it has none."""
        return self._handlers[command.name]

    def require_all(self) -> None:
        """Raise `LookupError` unless every command has its handler."""
        missing = ", ".join(f"/{name}" for name in self._commands if name not in self._handlers)
        if missing:
            raise LookupError(f"no handler for {missing}")


def table() -> str:
    """Return the published table, in Markdown."""
    lines = [
        "| Command | What it does | Terminal | Messengers | While an answer is written | Changes |",
        "|---|---|---|---|---|---|",
    ]
    for command in COMMANDS:
        names = " ".join(f"`/{alias}`" for alias in command.aliases)
        usage = command.usage.replace("|", "\\|")  # also in code, it would end the cell
        shown = f"`{usage}`" + (f" ({names})" if names else "")
        marks = ("yes" if surface in command.surfaces else "–" for surface in BOTH)
        cells = (shown, command.summary, *marks, _when_busy(command), command.changes)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _when_busy(command: Command) -> str:
    if not command.while_busy:
        return "waits"
    if set(command.while_busy) == set(command.surfaces):
        return "at once"
    return f"at once {'on messengers' if command.while_busy == MESSENGERS else 'in the terminal'}"
