"""The slash commands: one table for every surface.

A surface looks a command up here, asks whether it may be used now, and does it in its own way. The
published table in ``docs/commands.md`` is made from this one.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Surface = Literal["cli", "gateway"]


class Command(NamedTuple):
    """One command: how it is written, what it does, where and when it works."""

    name: str
    summary: str
    arguments: str = ""
    surfaces: tuple[Surface, ...] = ("cli", "gateway")
    #: Whether it works while the agent answers; otherwise it waits until the answer is complete.
    while_busy: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """How it is written, with its arguments."""
        return f"/{self.name} {self.arguments}".rstrip()


class TypedCommand(NamedTuple):
    """A command as somebody typed it."""

    command: Command
    argument: str


class UnknownCommand(NamedTuple):
    """Something that looks like a command and is none; *near* are those it may mean."""

    name: str
    near: tuple[str, ...]


COMMANDS: Final = (
    Command("help", "Show the commands.", while_busy=True),
    Command("new", "Start a new session.", "[title]", aliases=("reset",)),
    Command("title", "Show the title, or set it.", "[text]", while_busy=True),
    Command("sessions", "List recent sessions.", while_busy=True),
    Command("resume", "Go on with another session.", "[number | id | title]"),
    Command("search", "Search all sessions.", "<query>", while_busy=True),
    Command("compress", "Summarise the session and go on with the summary.", "[focus]"),
    Command("retry", "Ask the last question again."),
    Command("undo", "Take back the last exchanges.", "[number]"),
    Command("branch", "Go on in a copy; this session stays as it is.", "[title]"),
    Command("handoff", "Go on with this session on a messenger.", "<platform>", surfaces=("cli",)),
    Command("queue", "Say something after the current answer.", "<text>", while_busy=True),
    Command(
        "steer",
        "Say something to the current answer, after its next step.",
        "<text>",
        surfaces=("gateway",),
        while_busy=True,
    ),
    Command("stop", "Interrupt, and drop what is queued.", while_busy=True),
    Command("status", "Show the session and the model.", while_busy=True),
    Command("usage", "Show tokens and cost.", while_busy=True),
    Command(
        "export",
        "Write the session to a file.",
        "[jsonl | md | html] [file]",
        surfaces=("cli",),
    ),
    Command("incognito", "Show whether this chat is stored.", surfaces=("cli",), while_busy=True),
    Command("model", "Show the model, or use another one.", "[name]"),
    Command("restart", "Restart the gateway.", surfaces=("gateway",), while_busy=True),
    Command("quit", "Leave.", surfaces=("cli",), while_busy=True, aliases=("exit", "q")),
)

_BY_NAME: Final = {
    name: command for command in COMMANDS for name in (command.name, *command.aliases)
}


def parse_command(text: str, surface: Surface) -> TypedCommand | UnknownCommand | None:
    """Return the command that *text* is, None when it is something to say.

    Only a first line that begins with ``/`` and a letter is one: ``/tmp/x`` and ``//`` are not.
    A command is known by its name, in any case, with or without ``@name`` behind it.
    """
    first, _, rest = text.strip().partition("\n")
    word, _, argument = first.partition(" ")
    name = word[1:].partition("@")[0].lower()
    if not word.startswith("/") or not name.isalpha():
        return None
    command = _BY_NAME.get(name)
    if command is None or surface not in command.surfaces:
        return UnknownCommand(name, _near(name, surface))
    return TypedCommand(command, f"{argument}\n{rest}".strip())


def commands_for(surface: Surface) -> tuple[Command, ...]:
    """Return the commands of one surface, in the order in which help shows them."""
    return tuple(command for command in COMMANDS if surface in command.surfaces)


def _near(name: str, surface: Surface) -> tuple[str, ...]:
    from difflib import get_close_matches

    names = [known for known, command in _BY_NAME.items() if surface in command.surfaces]
    beginning = [known for known in names if name and known.startswith(name)]
    return tuple(beginning or get_close_matches(name, names, n=2))


def table() -> str:
    """Return the published table, in Markdown."""
    lines = [
        "| Command | What it does | Terminal | Messengers | While an answer is coming |",
        "|---|---|---|---|---|",
    ]
    for command in COMMANDS:
        names = " ".join(f"`/{alias}`" for alias in command.aliases)
        usage = command.usage.replace("|", "\\|")  # also in code, it would end the cell
        shown = f"`{usage}`" + (f" ({names})" if names else "")
        places = ("yes" if place in command.surfaces else "–" for place in ("cli", "gateway"))
        busy = "at once" if command.while_busy else "after it"
        lines.append(f"| {shown} | {command.summary} | {' | '.join(places)} | {busy} |")
    return "\n".join(lines) + "\n"
