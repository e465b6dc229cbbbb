"""Tags, metadata and workspaces on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hermes_sessions.cli.selection import Selection, SelectionOptions
from hermes_sessions.cli.sessions.browse_picker import rows_for
from tests.cli.harness import DAY, NOW, Hermes
from tests.cli.terminal import Terminal


@pytest.fixture
def labelled(hermes: Hermes, tmp_path: Path) -> Hermes:
    """Three sessions: two in ``api``, one of them tagged, and one elsewhere."""
    (tmp_path / "api").mkdir()
    with hermes.db(NOW - 100 * DAY) as db:
        db.create_session("one", "cli", cwd=tmp_path / "api", tags=["urgent", "needs review"])
        db.create_session("two", "cli", cwd=tmp_path / "api", metadata={"ticket": 42})
        db.create_session("three", "cli", tags=["urgent"])
        for name in ("one", "two", "three"):
            db.append_message(name, "user", f"plum in {name}")
            db.end_session(name, "cli_close")
    return hermes


def ids(hermes: Hermes, *arguments: str) -> list[str]:
    result = hermes.call("sessions", *arguments, "--json")
    assert result.err == ""
    return sorted(row["id"] for row in result.json["sessions"])


SELECTIONS = [
    (["--tag", "URGENT"], ["one", "three"]),
    (["--tag", "urgent", "--tag", "needs  review"], ["one"]),
    (["--not-tag", "needs review"], ["three", "two"]),
    (["--meta", "ticket=42"], ["two"]),
    (["--meta", "ticket=43"], []),
    (["--workspace", "API"], ["one", "two"]),
    (["--workspace", "api", "--tag", "urgent"], ["one"]),
]


@pytest.mark.parametrize(("options", "expected"), SELECTIONS)
def test_every_command_selects_the_same(
    labelled: Hermes, tmp_path: Path, options: list[str], expected: list[str]
) -> None:
    assert ids(labelled, "list", *options) == expected
    found = labelled.call("sessions", "search", "plum", *options, "--json").json["hits"]
    assert sorted(hit["session_id"] for hit in found) == expected
    for query in ([], ["--query", "plum"]):
        if query and not expected:
            continue
        file = tmp_path / "export.jsonl"
        labelled.call("sessions", "export", str(file), "--force", *query, *options)
        records = map(json.loads, file.read_text().splitlines())
        assert sorted(record["id"] for record in records) == expected
    pruned = labelled.call("sessions", "prune", *options, "--yes", "--json")
    assert sorted(pruned.json["deleted"]) == expected
    assert sorted({"one", "two", "three"} - set(expected)) == ids(labelled, "list")


@pytest.mark.parametrize(
    "words",
    [
        ["list", "--tag", "urgent", "--not-tag", "done", "--meta", "ticket=42"],
        ["search", "plum", "--tag", "urgent", "--not-tag", "done", "--meta", "ticket=42"],
        ["export", "-", "--tag", "urgent", "--not-tag", "done", "--meta", "ticket=42"],
        ["prune", "--dry-run", "--tag", "urgent", "--not-tag", "done", "--meta", "ticket=42"],
        ["list", "--workspace", "api", "--tag", "urgent"],
        ["search", "plum", "--workspace", "api", "--tag", "urgent"],
        ["export", "-", "--workspace", "api", "--tag", "urgent"],
        ["prune", "--dry-run", "--workspace", "api", "--tag", "urgent"],
        ["list", "--here", "--tag", "urgent"],
        ["search", "plum", "--here", "--tag", "urgent"],
        ["export", "-", "--here", "--tag", "urgent"],
        ["prune", "--dry-run", "--here", "--tag", "urgent"],
    ],
)
def test_several_selections_at_once(
    labelled: Hermes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path / "api")
    with labelled.db() as db:
        db.set_metadata("one", {"ticket": 42})
        db.add_tags("three", ["done"])
        db.set_metadata("three", {"ticket": 42})
    result = labelled.call("sessions", *words)
    assert (result.code, result.err) == (0, "")
    assert "one" in result.out
    assert not {"two", "three"} & set(re.findall(r"\w+", result.out))


def test_options_that_exclude_each_other(labelled: Hermes) -> None:
    result = labelled.call("sessions", "export", "-", "--here", "--session-id", "one")
    assert (result.code, "cannot be combined" in result.err) == (2, True)


def test_browsing_a_selection(labelled: Hermes, tmp_path: Path) -> None:
    with labelled.db() as db:
        rows = [row.id for row in rows_for(db, "", None, (), Selection(tags=("urgent",)))]
        assert sorted(rows) == ["one", "three"]
        selection = SelectionOptions(("urgent",), (), (), str(tmp_path / "api"), False).read(db)
        for text in ("", "plum", "on"):
            assert [row.id for row in rows_for(db, text, None, (), selection)] == ["one"]
    words = ("browse", "--tag", "urgent", "--not-tag", "done", "--workspace", "api")
    with Terminal(labelled, "sessions", *words) as terminal:
        terminal.wait_for("plum in one")
        assert "plum in three" not in terminal.screen
        terminal.keys("q")
        assert terminal.finish() == 1
    words = ("browse", "--here", "--meta", "ticket=42")
    with Terminal(labelled, "sessions", *words) as terminal:
        terminal.wait_for("Nothing found.")
        assert "plum in" not in terminal.screen
        terminal.keys("q")
        assert terminal.finish() == 1


def test_prune_for_good_selects_too(labelled: Hermes) -> None:
    labelled.call("sessions", "prune", "--not-tag", "urgent", "--purge", "--yes")
    assert ids(labelled, "list") == ["one", "three"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tag", "-x"], "must not begin"),
        (["--meta", "ticket"], "is not KEY=VALUE"),
        (["--meta", "=42"], "is not KEY=VALUE"),
        (["--here", "--workspace", "api"], "cannot be combined"),
    ],
)
def test_options_that_cannot_be_read(labelled: Hermes, options: list[str], message: str) -> None:
    result = labelled.call("sessions", "list", *options)
    assert result.code == 2
    assert message in result.err


def test_an_unknown_workspace(labelled: Hermes) -> None:
    result = labelled.call("sessions", "list", "--workspace", "missing")
    assert result.code != 0
    assert "hermes workspaces list" in result.err


def test_two_workspaces_of_one_name(labelled: Hermes, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "api"
    other.mkdir(parents=True)
    with labelled.db() as db:
        db.create_session("four", "cli", cwd=other)
    result = labelled.call("sessions", "list", "--workspace", "api")
    assert "several workspaces" in result.err
    assert str(other.resolve()) in result.err
    assert ids(labelled, "list", "--workspace", str(other)) == ["four"]


def test_here(labelled: Hermes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "api")
    assert ids(labelled, "list", "--here") == ["one", "two"]
    shown = labelled.call("workspaces", "show", "--json").json
    assert (shown["workspace"]["name"], len(shown["sessions"])) == ("api", 2)
    new = tmp_path / "new"
    new.mkdir()
    monkeypatch.chdir(new)
    assert ids(labelled, "list", "--here") == []
    new.rmdir()
    result = labelled.call("sessions", "list", "--here")
    assert "does not exist any more" in result.err


def test_tags_of_a_session(labelled: Hermes) -> None:
    def tags(*changes: str) -> list[str]:
        result = labelled.call("sessions", "tag", "two", *changes, "--json")
        assert result.code == 0, result.err
        found: list[str] = result.json["tags"]
        return found

    assert tags() == []
    assert tags("+Urgent", "api", "+needs review") == ["api", "needs review", "urgent"]
    assert tags("-urgent", "-missing", "+x") == ["api", "needs review", "x"]
    assert labelled.call("sessions", "tag", "--json", "two").json["tags"] == tags()
    before = tags()
    result = labelled.call("sessions", "tag", "two", "-api", "+" + "x" * 65)
    assert result.code != 0
    assert tags() == before
    assert "has no tags" in labelled.call("sessions", "tag", "two", *(f"-{t}" for t in before)).out
    assert labelled.call("sessions", "tag", "--help").code == 0
    assert labelled.call("sessions", "tag", "missing", "+x").code != 0


def test_workspaces_that_move_and_merge(
    labelled: Hermes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "api").rename(tmp_path / "service")
    result = labelled.call("workspaces", "move", "api", str(tmp_path / "missing"))
    assert "There is no directory" in result.err
    monkeypatch.chdir(tmp_path / "service")
    assert labelled.call("workspaces", "move", "api").code == 0
    assert ids(labelled, "list", "--here") == ["one", "two"]
    (tmp_path / "web").mkdir()
    with labelled.db() as db:
        db.create_session("four", "cli", cwd=tmp_path / "web")
    assert labelled.call("workspaces", "move", "api", str(tmp_path / "web")).code != 0
    assert labelled.call("workspaces", "merge", "web", "--into", "api").code == 0
    assert ids(labelled, "list", "--here") == ["four", "one", "two"]
    assert labelled.call("workspaces", "merge", "api", "--into", "api").code != 0
    assert "web" in labelled.call("workspaces", "separate", "api").out
    assert "Nothing was merged" in labelled.call("workspaces", "separate", "api").out
    assert ids(labelled, "list", "--workspace", "web") == ["four"]


def test_a_store_without_workspaces(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s", "cli")
    assert "No workspaces yet" in hermes.call("workspaces", "list").out
    assert hermes.call("workspaces", "list", "--json").json == {"workspaces": []}
