"""Which command-line arguments start a chat."""

from __future__ import annotations

import pytest

from hermes_sessions.cli.chat.arguments import as_chat

COMMANDS = ("sessions", "chat", "insights")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("-c", "chat --continue="),
        ("chat -c", "chat --continue="),
        ("-c my project", "chat --continue=my project"),
        ("-c my project --model x", "chat --continue=my project --model=x"),
        ("--model x -c my project", "chat --model=x --continue=my project"),
        ("--continue=my project", "chat --continue=my project"),
        ("chat --resume 2025_01", "chat --resume=2025_01"),
        ("-r sessions list", "chat --resume=sessions list"),
        ("--plain -c a b", "--plain chat --continue=a b"),
        ("-q hello", "chat --query=hello"),
        ("--query=-x", "chat --query=-x"),
        ("chat --nonsense", "chat --nonsense"),
        ("-q", "chat -q"),
        ("--incognito", "chat --incognito"),
        ("--incognito -q hello", "chat --incognito --query=hello"),
    ],
)
def test_a_chat(typed: str, meant: str) -> None:
    words = typed.split(" ") if "=my project" not in typed else [typed]
    options = as_chat(words, COMMANDS, on_terminal=False)
    assert " ".join(options) == meant


def test_a_question_in_quotes_is_one_word() -> None:
    assert as_chat(["-q", "a b"], COMMANDS, on_terminal=False) == ["chat", "--query=a b"]


@pytest.mark.parametrize(
    "typed",
    ["sessions list", "--plain sessions list", "insights", "unknown", "--help", "--version"],
)
def test_something_else(typed: str) -> None:
    assert as_chat(typed.split(), COMMANDS, on_terminal=True) == typed.split()


def test_nothing_at_all() -> None:
    assert as_chat([], COMMANDS, on_terminal=True) == ["chat"]
    assert as_chat(["--plain"], COMMANDS, on_terminal=True) == ["--plain", "chat"]
    assert as_chat([], COMMANDS, on_terminal=False) == []
