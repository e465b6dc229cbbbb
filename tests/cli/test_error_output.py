"""Errors are one clear line on standard error, with an exit code by kind."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import Hermes, Result
from tests.cli.sample_store import AUTH, PROJECT, WEATHER
from tests.fixtures.hermes import stored

# The tests must not open a live store with another SQLite library; other processes may.
SQL = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(sys.argv[2])
print("done", flush=True)
sys.stdin.read()
"""


def start_sql(hermes: Hermes, statement: str) -> subprocess.Popen[str]:
    """Run a statement in another process, which keeps its connection until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", SQL, hermes.store, statement],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    return process


def assert_one_line(result: Result, code: int, *words: str) -> None:
    assert (result.code, result.out) == (code, ""), result
    assert result.err.startswith("Error: ")
    assert len(result.err.splitlines()) == 1, result.err
    for word in words:
        assert word in result.err


# ── which session ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "arguments",
    [["show"], ["delete", "--yes"], ["rename", "x"], ["export", "-", "--session-id"]],
    ids=lambda arguments: arguments[0],
)
def test_an_unknown_name_gets_the_closest_match(filled: Hermes, arguments: list[str]) -> None:
    command, *rest = arguments
    arguments = [command, "refactor auth", *rest]
    if "--session-id" in rest:
        arguments = [command, *rest, "refactor auth"]
    result = filled.run("sessions", *arguments)
    assert_one_line(result, 1, "Did you mean 'refactoring auth'?", "hermes sessions list")


def test_a_wrong_digit_in_an_id(filled: Hermes) -> None:
    result = filled.call("sessions", "show", AUTH[:-1] + "9")
    assert_one_line(result, 1, f"Did you mean {AUTH!r}")


def test_a_part_of_a_title_finds_it(hermes: Hermes) -> None:
    with hermes.db() as db:
        for number, title in enumerate(
            ("auth modules", "What the Auth module of the billing service needs", "auth mobile")
        ):
            db.create_session(f"s{number}", "cli")
            db.set_session_title(f"s{number}", title)
    for arguments in (["sessions", "show", "auth", "module"], ["-c", "auth", "module", "-q", "x"]):
        result = hermes.call(*arguments)
        assert result.code == 1
        assert (
            "Did you mean 'auth modules' or 'What the Auth module of the billing service needs' or "
            "'auth mobile'?" in result.err
        )
    assert "mean" not in hermes.call("sessions", "show", "a").err


def test_nothing_is_near(hermes: Hermes) -> None:
    assert_one_line(
        hermes.call("sessions", "show", "x"),
        1,
        "No session matches 'x'. To list sessions, run: hermes sessions list",
    )
    assert_one_line(hermes.call("sessions", "show", ""), 1, "No session matches ''.")


def test_the_beginning_of_several_ids_lists_them(filled: Hermes) -> None:
    result = filled.run("sessions", "show", "2025030")
    assert (result.code, result.out) == (1, "")
    lines = result.err.splitlines()
    assert lines[0] == "Error: '2025030' matches several sessions. Use more of the id:"
    assert f"  {PROJECT}  my project #3" in lines
    assert f"  {WEATHER}  (telegram)" in lines


def test_not_all_of_very_many_candidates_are_listed(hermes: Hermes) -> None:
    with hermes.db() as db:
        for number in range(30):
            db.create_session(f"session{number:02}", "cli")
    result = hermes.call("sessions", "show", "session")
    assert len(result.err.splitlines()) == 12
    assert result.err.splitlines()[-1] == "  ... and more"


def test_names_cannot_paint_the_terminal(hermes: Hermes) -> None:
    name = "\x1b[31mred \x9b2J"
    assert_one_line(hermes.call("sessions", "show", name), 1)
    with hermes.db() as db:
        db.create_session(name, "\x1b]0;source\x07", model="\x1b[1m", user_id="\x1b[2m")
        db.set_session_title(name, "title \x9b31m")
        db.create_session(f"{name} again", "cli")
        db.append_message(name, "user", "needle")
        db.append_message(name, "user", "needle")
    shown = [
        hermes.call("sessions", *command)
        for command in (
            ["list"],
            ["list", "--source", "cli"],
            ["show", name],
            ["show", "\x1b"],
            ["search", "needle"],
            ["search", "needle OR \x1b[1m", "--limit", "1"],
            ["stats"],
            ["rename", name, "another", "\x9b31m"],
            ["delete", name],
            ["delete", name, "--yes"],
            ["trash"],
            ["restore", "nobody"],
            ["restore", name],
        )
    ]
    for result in shown:
        assert result.code in {0, 1}
        assert not set("\x1b\x9b\x07") & set(result.out + result.err)


# ── usage ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["session"], ["Did you mean 'sessions'?", "hermes --help"]),
        (["sessions", "lst"], ["Did you mean 'list'?", "hermes sessions --help"]),
        (["sessions", "qqqq"], ["No such command 'qqqq'."]),
        (["sessions", "list", "--sorce", "x"], ["--source", "hermes sessions list --help"]),
        (["sessions", "list", "--limit", "many"], ["'many' is not a whole number (1 or more)"]),
        (["sessions", "list", "--limit", "0"], ["'0' is not a whole number (1 or more)"]),
        (["sessions", "list", "--limit", "-1"], ["'-1' is not a whole number"]),
        (["sessions", "list", "extra"], ["extra"]),
        (["sessions", "show"], ["ID..."]),
        (["sessions", "show", "x", "--messages", "1.5"], ["'1.5' is not a whole number (0 or"]),
        (["sessions", "prune", "--older-than", "-1"], ["'-1' is not a number of days (0 or more)"]),
        (["sessions", "prune", "--older-than", "nan"], ["'nan' is not a number of days"]),
        (["sessions", "prune", "--older-than", "inf"], ["'inf' is not a number of days"]),
        (["sessions", "trash", "--older-than", "old"], ["'old' is not a number of days"]),
        (["sessions", "export"], ["FILE"]),
        (["sessions", "import"], ["FILE"]),
    ],
    ids=" ".join,
)
def test_wrong_usage(hermes: Hermes, arguments: list[str], words: list[str]) -> None:
    assert_one_line(hermes.call(*arguments), 2, *words)
    assert not hermes.home.exists()


def test_numbers_of_any_length(filled: Hermes) -> None:
    for digits in ("9" * 25, "9" * 5000):
        assert filled.call("sessions", "list", "--limit", digits).code == 0
        assert filled.call("sessions", "show", AUTH, "--messages", digits).code == 0
        assert filled.call("sessions", "search", "auth", "--limit", digits).code == 0
        assert_one_line(
            filled.call("sessions", "show", AUTH, "--around", digits), 1, "has no message"
        )


# Runs the command after closing one of its standard streams.
CLOSED = "import os, sys; os.close(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"


@pytest.mark.parametrize(
    ("number", "arguments", "result"),
    [
        (0, ["delete", AUTH], (1, "Cancelled")),
        (0, ["import", "-"], (0, "")),
        (1, ["list"], (1, "standard output: Bad file descriptor.")),
        (1, ["list", "--json"], (1, "standard output: Bad file descriptor.")),
        (1, ["export", "-"], (1, "standard output: Bad file descriptor.")),
        (2, ["show", "nobody"], (1, "")),
    ],
)
def test_standard_streams_that_are_closed(
    filled: Hermes, number: int, arguments: list[str], result: tuple[int, str]
) -> None:
    program = str(Path(sys.executable).with_name("hermes"))
    command = [sys.executable, "-c", CLOSED, str(number), program, "sessions", *arguments]
    done = subprocess.run(
        command,
        env=filled.environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    code, said = result
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("arguments", [[], ["sessions"], ["--help"], ["sessions", "list", "-h"]])
def test_help_is_not_a_failure(hermes: Hermes, arguments: list[str]) -> None:
    result = hermes.call(*arguments)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Usage: hermes ")


# ── configuration ─────────────────────────────────────────────────────────────────────────────


def test_a_wrong_setting(hermes: Hermes) -> None:
    hermes.home.mkdir()
    (hermes.home / "config.yaml").write_text("sessiondb: {sqlite: {durability: maybe}}\n")
    result = hermes.run("sessions", "list")
    assert (result.code, result.out) == (2, "")
    assert "sessiondb.sqlite.durability" in result.err
    assert "Traceback" not in result.err


def test_a_misspelt_setting_is_a_warning(filled: Hermes) -> None:
    (filled.home / "config.yaml").write_text("sessions: {trash_day: 3}\n")
    result = filled.run("sessions", "stats", "--json")
    assert result.code == 0
    assert result.json["sessions"] == 10
    assert result.err.startswith("Warning: ")
    assert "trash_days" in result.err
    assert len(result.err.splitlines()) == 1


# ── the store ─────────────────────────────────────────────────────────────────────────────────


def test_a_locked_store(filled: Hermes) -> None:
    (filled.home / "config.yaml").write_text("sessiondb: {sqlite: {lock_timeout: 0.1}}\n")
    with start_sql(filled, "BEGIN IMMEDIATE") as holder:
        # Reading never waits for a writer.
        assert filled.run("sessions", "list").code == 0
        assert_one_line(filled.run("sessions", "rename", AUTH, "x"), 3, "locked")
        assert holder.stdin is not None
        holder.stdin.close()


def test_a_file_that_is_not_a_database(hermes: Hermes) -> None:
    hermes.home.mkdir()
    hermes.store.write_text("Dear diary, " * 1000)
    for command in (["list"], ["rename", "a", "b"], ["stats"]):
        assert_one_line(hermes.run("sessions", *command), 3, str(hermes.store), "not a database")
    assert hermes.store.read_text().startswith("Dear diary")


def test_a_damaged_store(filled: Hermes) -> None:
    content = bytearray(filled.store.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    filled.store.write_bytes(content)
    assert_one_line(filled.run("sessions", "list"), 3, str(filled.store), "malformed")


def test_a_database_of_another_program(hermes: Hermes) -> None:
    hermes.home.mkdir()
    with start_sql(hermes, "CREATE TABLE recipes (name TEXT)") as process:
        process.communicate()
    assert_one_line(hermes.run("sessions", "list"), 3, "another program")


def test_a_store_of_a_newer_version_can_be_read_only(filled: Hermes) -> None:
    with start_sql(filled, "PRAGMA user_version = 99") as process:
        process.communicate()
    assert filled.run("sessions", "list").code == 0
    assert filled.run("sessions", "show", AUTH).code == 0
    assert_one_line(filled.run("sessions", "rename", AUTH, "x"), 3, "newer")


def test_a_store_of_a_later_hermes_names_the_way_out(hermes: Hermes) -> None:
    hermes.home.mkdir()
    stored.unpack("v22", hermes.store)
    result = hermes.run("sessions", "list")
    assert_one_line(result, 3, "later Hermes", f"hermes sessions import {hermes.store}")


def test_a_store_of_an_earlier_hermes_is_upgraded(hermes: Hermes) -> None:
    hermes.home.mkdir()
    stored.unpack("v11", hermes.store)
    result = hermes.run("sessions", "list", "--json")
    assert result.code == 0, result.err
    assert result.json["sessions"]


def test_a_home_that_is_a_file(hermes: Hermes) -> None:
    hermes.home.touch()
    assert_one_line(hermes.run("sessions", "list"), 2, "Set HERMES_HOME to a directory")


def test_a_home_in_the_middle_of_nowhere_is_made(tmp_path: Path) -> None:
    hermes = Hermes(tmp_path / "a" / "b" / "c")
    assert hermes.run("sessions", "optimize").code == 0
    assert hermes.home.stat().st_mode & 0o777 == 0o700
