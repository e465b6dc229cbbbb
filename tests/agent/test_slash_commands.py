"""Slash commands: their declarations, parsing, and the handlers of every surface."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_sessions.agent.slash_commands import (
    BOTH,
    COMMANDS,
    Command,
    CommandHandlers,
    TypedCommand,
    UnknownCommand,
    commands_for,
    find_command,
    parse_command,
    table,
)

SOURCES = Path(__file__).parents[2] / "src" / "hermes_sessions"
PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/title my project", "title", "my project"),
        ("  /TITLE  ", "title", ""),
        ("/reset", "new", ""),
        ("/exit", "quit", ""),
        ("/new@hermes_bot Trip", "new", "Trip"),
        ("/queue first\nsecond", "queue", "first\nsecond"),
    ],
)
def test_parsing(text: str, name: str, argument: str) -> None:
    typed = parse_command(text, "cli")
    assert isinstance(typed, TypedCommand)
    assert (typed.command.name, typed.argument) == (name, argument)


@pytest.mark.parametrize(
    "text", ["hello", "", "/", "//x", "/tmp/file", "/1", "a /title", "/ title"]
)
def test_messages(text: str) -> None:
    assert parse_command(text, "cli") is None


def test_unknown_commands() -> None:
    assert parse_command("/titel x", "cli") == UnknownCommand("titel", ("title",))
    assert parse_command("/st", "cli") == UnknownCommand("st", ("stop", "status"))
    assert parse_command("/zzzz", "cli") == UnknownCommand("zzzz", ())
    found = parse_command("/quit", "gateway")
    assert isinstance(found, UnknownCommand)


def test_names_are_unique() -> None:
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))
    assert {command.name for command in commands_for("gateway")} < {c.name for c in COMMANDS}


def test_the_page_shows_the_table() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_traits_are_consistent(command: Command) -> None:
    assert command.surfaces
    assert set(command.while_busy) <= set(command.surfaces)
    assert set(command.as_turn) <= set(command.surfaces)
    assert command.changes != "nothing" or command.repeat == "always"


def test_repeating_after_a_crash() -> None:
    by_name = {command.name: command for command in COMMANDS}
    may = {
        name: (command.may_repeat(is_too_late=False), command.may_repeat(is_too_late=True))
        for name, command in by_name.items()
        if "gateway" in command.surfaces
    }
    assert {name for name, (_, late) in may.items() if late} == {
        *("help", "status", "usage", "model", "sessions", "search")
    }
    assert {name for name, (early, late) in may.items() if early and not late} == {
        *("stop", "new", "title")
    }


def test_find_command() -> None:
    found = find_command("reset", "gateway")
    assert found is not None
    assert found.name == "new"
    assert find_command("quit", "gateway") is None
    assert find_command("nonsense", "cli") is None


Registry = CommandHandlers[Callable[[str], str]]


class TestHandlers:
    PING = Command("ping", "Answer.")
    PONG = Command("pong", "Answer.", surfaces=("gateway",))

    def test_a_handler_is_found_by_its_command(self) -> None:
        handles: Registry = CommandHandlers([self.PING])
        with pytest.raises(LookupError):
            handles[self.PING]
        handles("ping")(str.upper)
        handles.require_all()
        assert handles[self.PING]("pong") == "PONG"

    def test_a_command_without_a_handler(self) -> None:
        handles: Registry = CommandHandlers([self.PING, self.PONG])
        handles("ping")(str.upper)
        with pytest.raises(LookupError, match="no handler for /pong"):
            handles.require_all()

    def test_a_handler_without_a_command(self) -> None:
        handles: Registry = CommandHandlers([self.PING])
        with pytest.raises(LookupError, match="/pong is not a command"):
            handles("pong")

    def test_two_handlers(self) -> None:
        handles: Registry = CommandHandlers([self.PING])
        handles("ping")(str.upper)
        with pytest.raises(LookupError, match="/ping has two handlers"):
            handles("ping")


def test_every_surface_handles_its_commands() -> None:
    from hermes_sessions.cli.chat import slash_command_handlers as terminal
    from hermes_sessions.gateway import slash_command_handlers as gateway

    for command in commands_for("cli"):
        assert callable(terminal.handles[command])
    for command in commands_for("gateway"):
        if command.delivers is not None:
            continue  # its argument is stored as a message
        registry = gateway.handles_turn if "gateway" in command.as_turn else gateway.handles
        assert callable(registry[command])
    assert set(BOTH) == {surface for command in COMMANDS for surface in command.surfaces}


def test_names_of_commands_decide_nothing_elsewhere() -> None:
    """What depends on a command is a trait of its declaration: no code compares its name."""
    paths = [*SOURCES.glob("gateway/**/*.py"), *SOURCES.glob("cli/chat/*.py")]
    compared = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare)
        and any(
            ast.unparse(side).endswith("command.name") for side in (node.left, *node.comparators)
        )
    ]
    assert not compared
