"""Notices, lists and wrapping in a chat, in windows of any width."""

import pytest

from hermes_sessions.agent.slash_commands import commands_for
from hermes_sessions.cli.render.chat import command_lines, numbered_sessions, wrapped
from hermes_sessions.cli.render.style import Style
from hermes_sessions.cli.render.text_width import display_width
from tests.cli.harness import DAY, NOW

ROWS = [
    {"id": "20250305_091523_a1b2c3d4", "title": "旅行の計画 🚀" * 5, "last_active": NOW - 10 * DAY},
    {"id": "20250304_143022_e5f6a7b8", "title": None, "preview": "Hi", "last_active": NOW - 60},
    {"id": "empty", "title": None, "preview": None, "last_active": None},
]


@pytest.mark.parametrize("width", [40, 60, 80, 120, None])
def test_nothing_is_wider_than_the_window(width: int | None) -> None:
    style = Style(width=width)
    lines = [
        *command_lines(commands_for("cli"), style),
        *numbered_sessions(ROWS, current="empty", now=NOW, style=style),
        *wrapped("Nothing is here " * 20, style, "  "),
    ]
    assert all(display_width(line) <= (width or 1000) for line in lines)


def test_sessions() -> None:
    wide = list(numbered_sessions(ROWS, current="empty", now=NOW, style=Style(width=80)))
    assert len(wide) == 3
    assert wide[1].split() == ["2", "Hi", "1m", "ago", "20250304_143022_e5f6a7b8"]
    assert wide[2].startswith("  3* —")
    narrow = list(numbered_sessions(ROWS, current=None, now=NOW, style=Style(width=40)))
    assert narrow[2:4] == ["  2  Hi", "    20250304_143022_e5f6a7b8  1m ago"]


def test_commands() -> None:
    wide = list(command_lines(commands_for("cli"), Style()))
    assert len(wide) == len(commands_for("cli"))
    narrow = list(command_lines(commands_for("cli"), Style(width=40)))
    assert narrow[:2] == ["/help", "    Show the commands."]


def test_wrapping() -> None:
    assert wrapped("one two three four five", Style(width=16), "  ") == [
        "one two three",
        "  four five",
    ]
    assert wrapped("one two three four five", Style()) == ["one two three four five"]
