"""Slash commands: what is one, where and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions.agent.slash_commands import (
    COMMANDS,
    TypedCommand,
    UnknownCommand,
    commands_for,
    parse_command,
    table,
)

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
def test_commands(text: str, name: str, argument: str) -> None:
    typed = parse_command(text, "cli")
    assert isinstance(typed, TypedCommand)
    assert (typed.command.name, typed.argument) == (name, argument)


@pytest.mark.parametrize(
    "text", ["hello", "", "/", "//x", "/tmp/file", "/1", "a /title", "/ title"]
)
def test_something_to_say(text: str) -> None:
    assert parse_command(text, "cli") is None


def test_what_is_unknown() -> None:
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
