"""A home without a store: read-only commands create none, and behave as with an empty one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.harness import Hermes, Result
from tests.cli.terminal import Terminal


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("sessions stats", 0, "Database size: 0 bytes"),
        ("sessions stats --sizes --space --usage", 0, "Total sessions: 0"),
        ("insights", 0, "No sessions started"),
        ("backup list", 0, "There are no backups"),
        ("doctor", 0, "There is no store yet"),
        ("status", 0, "There is no store yet"),
        ("repair --check-only", 3, "does not exist"),
        ("repair --yes", 3, "does not exist"),
        ("forget --user u --dry-run", 1, "No data found about user u"),
        ("forget --user u --yes", 1, "No data found about user u"),
        ("forget --session u --yes", 1, "No session matches 'u'"),
        ("forget --receipts", 0, "There are no receipts"),
        ("forget --resume r", 1, "There is no receipt 'r'"),
        ("gateway queue", 0, "The queue is empty"),
        ("gateway status", 1, "Not running"),
        ("gateway stop", 1, "No gateway is running on this machine"),
        ("gateway restart", 1, "No gateway is running on this machine"),
    ],
)
def test_looking_makes_no_store(hermes: Hermes, command: str, code: int, words: str) -> None:
    hermes.home.mkdir()
    result = hermes.call(*command.split())
    assert result.code == code
    assert words in result.out + result.err
    assert list(hermes.home.iterdir()) == []


@pytest.mark.parametrize("form", ["--plain", "--json"])
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("sessions list", 0),
        ("sessions list --all --archived --children", 0),
        ("sessions show nobody", 1),
        ("sessions search needle", 1),
        ("sessions search needle --source cli", 1),
        ("sessions export -", 0),
        ("sessions export - --query needle", 1),
        ("sessions export - --session-id nobody", 1),
        ("sessions trash", 0),
        ("sessions explain nobody", 1),
        ("sessions holds", 0),
        ("sessions delete nobody --dry-run", 1),
        ("sessions prune --older-than 1 --dry-run", 0),
        ("sessions retention plan", 0),
        ("sessions retention run --dry-run", 0),
        ("sessions retention status", 0),
        ("insights", 0),
        ("gateway queue", 0),
        ("gateway status", 1),
        ("gateway stop", 1),
        ("gateway pair --list", 0),
        ("gateway explain nobody", 1),
        ("forget --receipts", 0),
    ],
)
def test_the_answer_is_that_of_an_empty_store(
    hermes: Hermes, command: str, code: int, form: str
) -> None:
    """With the same configuration: limits and how long the trash is kept are in some answers."""
    hermes.home.mkdir()
    config = hermes.home / "config.yaml"
    config.write_text("retention: {cron: {max_age_days: 3}}\nsessions: {trash_days: 4}\n")
    arguments = (*command.split(), form)
    without = hermes.call(*arguments)
    assert list(hermes.home.iterdir()) == [config]
    assert without.code == code
    with hermes.db():
        pass
    assert hermes.store.exists()
    assert timeless(hermes.call(*arguments)) == timeless(without)


def timeless(result: Result) -> Result:
    """Without how long a search took."""
    return replace(result, out=re.sub(r'"elapsed_ms": [0-9.]+', "", result.out))


def test_not_even_a_home_is_made(hermes: Hermes) -> None:
    assert hermes.call("sessions", "list").out == "No sessions found.\n"
    assert hermes.call("sessions", "list", "--json").json == {"sessions": []}
    assert not hermes.home.exists()


def test_browsing(hermes: Hermes) -> None:
    hermes.home.mkdir()
    with Terminal(hermes, "sessions", "browse") as terminal:
        terminal.wait_for("Nothing found.")
        terminal.keys("q")
        assert terminal.finish() == 1
    assert list(hermes.home.iterdir()) == []


def test_a_place_that_cannot_be_looked_at_is_not_taken_for_empty(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "config.yaml").write_text(f"sessiondb: {{sqlite: {{path: {tmp_path}/file/x.db}}}}")
    hermes = Hermes(tmp_path)
    for command in (["list"], ["search", "needle"]):
        result = hermes.call("sessions", *command)
        assert (result.code, result.out) == (3, "")
        assert "Not a directory" in result.err


def test_an_orphaned_log_is_handled(hermes: Hermes) -> None:
    """Its store was removed, so the command must not say that there never was one."""
    hermes.home.mkdir()
    log = Path(f"{hermes.store}-wal")
    log.write_bytes(b"left" * 1000)
    hermes.call("sessions", "list")
    assert hermes.store.exists()


@pytest.mark.parametrize("command", ["rename nobody somebody", "optimize"])
def test_commands_that_write_may_create_one(hermes: Hermes, command: str) -> None:
    hermes.call("sessions", *command.split())
    assert hermes.store.exists()
