"""docs/cli.md covers everything in --help, and the tests use every option."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hermes_sessions.cli.lazy_group import LazyGroup
from hermes_sessions.cli.render import json_output
from hermes_sessions.cli.root import hermes as root
from tests.cli.harness import Hermes

HERE = Path(__file__).parent
PAGE = (HERE.parent.parent / "docs" / "cli.md").read_text(encoding="utf-8")


def commands(group: LazyGroup, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, group
    for name, lazy in group.lazy_commands.items():
        command = lazy.load()
        if isinstance(command, LazyGroup):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


ALL = dict(commands(root, "hermes"))
LEAVES = {path: command for path, command in ALL.items() if not isinstance(command, LazyGroup)}
OPTIONS = [
    (path, name)
    for path, command in ALL.items()
    for option in command.params
    if isinstance(option, click.Option)
    for name in option.opts
]


def section(path: str) -> str:
    found = re.search(rf"^## `{path}`\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/cli.md has no section about {path}"
    return found[1]


@pytest.mark.parametrize("path", LEAVES)
def test_every_command_has_a_section(path: str) -> None:
    assert section(path).strip()


@pytest.mark.parametrize(("path", "option"), OPTIONS)
def test_every_option_is_documented(path: str, option: str) -> None:
    shared = path not in LEAVES or option in {"--json", "--plain"}
    text = PAGE if shared else section(path)
    assert re.search(rf"`[^`]*{option}\b[^`]*`", text)


@pytest.mark.parametrize("path", LEAVES)
def test_every_documented_option_exists(path: str) -> None:
    rows = [line.split("|")[1] for line in section(path).splitlines() if line.startswith("|")]
    documented = {name for row in rows for name in re.findall(r"`(--?[a-z-]+)", row)}
    assert documented <= {name for where, name in OPTIONS if where == path}


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    for group in ALL.values():
        if isinstance(group, LazyGroup):
            for name, lazy in group.lazy_commands.items():
                command = lazy.load()
                assert command.name == name
                assert command.get_short_help_str(limit=200) == lazy.short_help


def test_every_command_has_the_shared_options() -> None:
    for path in LEAVES:
        assert {(path, "--json"), (path, "--plain")} <= set(OPTIONS)


@pytest.mark.parametrize("path", ALL)
def test_help_fits_and_explains_every_option(hermes: Hermes, path: str) -> None:
    result = hermes.call(*path.split()[1:], "--help")
    assert result.code == 0
    assert max(map(len, result.out.splitlines())) <= 80
    for option in ALL[path].params:
        if isinstance(option, click.Option):
            assert option.help, f"{path} {option.opts[0]} has no help"


@pytest.mark.parametrize(
    ("keys", "beginning"),
    [
        (json_output.SESSION_KEYS, "A session has "),
        (json_output.MESSAGE_KEYS, "A message has "),
        (json_output.HIT_KEYS, "A hit has "),
        (json_output.ACCOUNT_KEYS, "An account has"),
    ],
)
def test_the_keys_of_json_are_documented(keys: tuple[str, ...], beginning: str) -> None:
    sentence = PAGE.partition(beginning)[2].partition(".")[0]
    assert re.findall(r"`(\w+)`", sentence) == list(keys)


# ── what the tests call ───────────────────────────────────────────────────────────────────────


def called() -> set[str]:
    """Every list of words in the tests, as they would be typed."""
    found = set()
    for file in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                words = node.args
            elif isinstance(node, (ast.List, ast.Tuple)):
                words = node.elts
            else:
                continue
            constants = [word.value for word in words if isinstance(word, ast.Constant)]
            found.add(" ".join(word for word in constants if isinstance(word, str)))
    return found


def test_every_option_is_used_in_a_test() -> None:
    lines = called()
    unused = []
    for path, option in OPTIONS:
        command = path.split()[-1] if path in LEAVES else ""
        shared = option in {"--json", "--plain"}
        if not any(
            option in line.split() and (shared or not command or command in line.split())
            for line in lines
        ):
            unused.append(f"{path} {option}")
    assert not unused
