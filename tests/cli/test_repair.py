"""`hermes repair`, and other commands on a damaged store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.care.repair.damage import SESSIONS, broken, sound, with_table_twice
from tests.care.repair.other_processes import store_open_elsewhere
from tests.cli.harness import Hermes

KINDS = (
    "header",
    "first page",
    "messages leaf",
    "messages root",
    "index flipped",
    "sessions",
    "cut off",
    "search",
    "table twice",
)
COMMANDS = (
    ["sessions", "list"],
    ["sessions", "list", "--json"],
    ["sessions", "search", "session"],
    ["sessions", "show", "s0"],
    ["sessions", "stats"],
    ["sessions", "export", "-"],
    ["sessions", "prune", "--dry-run"],
    ["insights", "--days", "0"],
)
UNOPENABLE = {"header", "first page", "table twice"}


def put(hermes: Hermes, kind: str) -> None:
    hermes.home.mkdir(exist_ok=True)
    if kind == "table twice":
        with_table_twice(hermes.store)
    else:
        hermes.store.write_bytes(broken(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_damage_never_looks_like_absence(hermes: Hermes, kind: str) -> None:
    for command in COMMANDS:
        put(hermes, kind)
        for beside in hermes.home.glob("state.db-*"):
            beside.unlink()
        result = hermes.call(*command)
        said = result.out + result.err
        assert "No sessions" not in said
        assert "no session" not in said.lower() or "Nothing to prune" in said
        if kind in UNOPENABLE:
            assert result.code == 3, command
        if result.code:
            assert result.code == 3, (command, said)
            assert "hermes repair" in result.err, (command, said)
        elif command[:2] == ["sessions", "list"]:
            assert all(f"s{number}" in result.out for number in range(SESSIONS))


def test_a_sound_store(hermes: Hermes) -> None:
    hermes.home.mkdir()
    hermes.store.write_bytes(sound().raw)
    for options in ([], ["--check-only"], ["--yes"]):
        result = hermes.call("repair", *options)
        assert result.code == 0
        assert "intact" in result.out
    assert hermes.call("repair", "--json").json["state"] == "sound"
    assert hermes.store.read_bytes() == sound().raw


def test_only_looking(hermes: Hermes) -> None:
    put(hermes, "messages leaf")
    result = hermes.call("repair", "--check-only")
    assert result.code == 1
    assert "table messages:" in result.out
    assert "hermes repair" in result.out
    result = hermes.call("repair", "--check-only", "--json")
    assert result.code == 1
    assert result.json["state"] == "damaged"
    assert result.json["findings"][0]["where"] == "messages"
    assert hermes.store.read_bytes() == broken("messages leaf")


def test_nothing_happens_without_a_yes(hermes: Hermes) -> None:
    put(hermes, "messages leaf")
    result = hermes.call("repair", stdin="n\n")
    assert result.code == 1
    assert "is damaged:" in result.err
    assert "Cancelled; nothing was changed." in result.err
    assert hermes.store.read_bytes() == broken("messages leaf")


def test_repairing(hermes: Hermes) -> None:
    put(hermes, "messages leaf")
    result = hermes.call("repair", "--way", "rows", stdin="y\n")
    assert result.code == 0, result.err
    assert "Lost:" in result.out
    assert "missing:" in result.out
    assert "was kept as state.db.damaged-20250305T150000Z" in result.out
    assert hermes.call("repair", "--check-only").code == 0
    assert "the third" in hermes.call("sessions", "list").out


def test_the_report_as_json(hermes: Hermes) -> None:
    put(hermes, "sessions")
    report = hermes.call("repair", "--yes", "--json", "--way", "rows").json
    assert report["state"] == "repaired"
    assert report["complete"] is False
    assert report["way"] == "row by row"
    assert len(report["sessions_made_for_messages"]) == SESSIONS
    assert {table["name"] for table in report["tables"]} >= {"sessions", "messages"}


def test_into_another_file(hermes: Hermes, tmp_path: Path) -> None:
    put(hermes, "messages leaf")
    target = tmp_path / "saved.db"
    result = hermes.call("repair", str(hermes.store), "--to", str(target), "--yes")
    assert result.code == 0
    assert f"The recovered store is {target}." in result.out
    assert hermes.store.read_bytes() == broken("messages leaf")
    again = hermes.call("repair", "--to", str(target), "--yes")
    assert again.code == 1
    assert "already exists" in again.err


def test_a_number_of_damaged_files_is_kept(hermes: Hermes) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text("repair:\n  keep: 1\n", encoding="utf-8")
    for day in range(2):
        hermes.store.unlink(missing_ok=True)
        put(hermes, "header")
        result = hermes.call("repair", "-y", now=day * 86400.0)
        assert result.code == 0
    assert "Removed older damaged files: state.db.damaged-19700101T000000Z" in result.out
    assert len(list(hermes.home.glob("state.db.damaged-*"))) == 1


def test_not_while_another_process_has_it_open(hermes: Hermes) -> None:
    hermes.home.mkdir()
    hermes.store.write_bytes(sound().raw)
    with store_open_elsewhere(hermes.store) as pid:
        result = hermes.call("repair", "--yes")
    assert result.code == 3
    assert f"({pid})" in result.err
    assert "--check-only" in result.err


def test_a_store_on_a_server(hermes: Hermes) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text(
        "sessiondb:\n  provider: postgresql\n  postgresql:\n    dsn: postgresql://nowhere/x\n",
        encoding="utf-8",
    )
    result = hermes.call("repair")
    assert result.code == 1
    assert "whose server manages its files" in result.err


def test_a_tool_that_cannot_do_it(
    hermes: Hermes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    tool = folder / "sqlite3"
    tool.write_text('#!/bin/sh\necho "sql error: SQL logic error (1)" >&2\nexit 1\n')
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", str(folder))
    put(hermes, "messages leaf")
    result = hermes.call("repair", "--yes", "--way", "tool")
    assert result.code == 1
    assert "No sqlite3 tool with .recover" in result.err
    assert hermes.store.read_bytes() == broken("messages leaf")
    assert hermes.call("repair", "--yes", "--json").json["way"] == "row by row"
