"""The command in a terminal: colours, width, questions, interrupts, progress."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.harness import Hermes
from tests.cli.sample_store import AUTH, OLD, WEATHER
from tests.cli.terminal import SLOW_COMMAND, Terminal, without_escapes


def test_a_list_fits_the_window_and_has_colour(filled: Hermes) -> None:
    with Terminal(filled, "sessions", "list", columns=80) as terminal:
        assert terminal.finish() == 0
    assert "\x1b[1m" in terminal.screen
    lines = without_escapes(terminal.screen).splitlines()
    assert lines[1] == "─" * len(lines[2])
    assert len(lines[1]) <= 80
    assert any(line.endswith(AUTH) for line in lines)


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["sessions", "list"], {"NO_COLOR": "1"}),
        (["sessions", "list"], {"TERM": "dumb"}),
        (["sessions", "list", "--plain"], {}),
        (["--plain", "sessions", "list"], {}),
        (["sessions", "list", "--json"], {}),
    ],
)
def test_no_colour_for_those_who_want_none(
    filled: Hermes, arguments: list[str], environ: dict[str, str]
) -> None:
    with Terminal(filled, *arguments, **environ) as terminal:
        assert terminal.finish() == 0
    assert "\x1b" not in terminal.screen
    assert AUTH in terminal.screen


def test_a_window_too_narrow_for_a_table(filled: Hermes) -> None:
    with Terminal(filled, "sessions", "list", columns=40) as terminal:
        assert terminal.finish() == 0
    lines = without_escapes(terminal.screen).splitlines()
    assert lines[:2] == ["refactoring auth", f"  {AUTH}  2024-…"] or lines[1].startswith(
        f"  {AUTH}"
    )
    assert "Preview" not in terminal.screen


def test_a_question_is_answered_on_the_screen(filled: Hermes) -> None:
    with Terminal(filled, "sessions", "delete", WEATHER) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.keys("y\n")
        assert terminal.finish() == 0
    with filled.db() as db:
        assert [session["id"] for session in db.list_trash()] == [WEATHER]


@pytest.mark.parametrize(("typed", "code"), [("\n", 1), ("\x04", 1), ("\x03", 130)])
def test_enter_end_of_input_and_interrupt_change_nothing(
    filled: Hermes, typed: str, code: int
) -> None:
    with Terminal(filled, "sessions", "delete", WEATHER) as terminal:
        terminal.wait_for("[y/N] ")
        if typed == "\x03":
            terminal.press_interrupt()
        else:
            terminal.keys(typed)
        assert terminal.finish() == code
    assert "Traceback" not in terminal.screen
    assert terminal.screen.endswith("\n")
    with filled.db() as db:
        assert db.get_session(WEATHER)


def test_an_interrupt_while_reading_a_pipe(filled: Hermes) -> None:
    process = filled.start("sessions", "delete", WEATHER)
    assert process.stderr is not None
    while not process.stderr.readline().endswith(f"{WEATHER}\n"):
        pass
    # The question has no newline; its first character says that the command waits for the answer.
    assert process.stderr.read(1) == "M"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [["prune", "--yes"], ["prune", "--yes", "--purge"], ["delete", OLD, "--purge", "-y"]],
)
def test_work_that_takes_longer_shows_a_bar(filled: Hermes, arguments: list[str]) -> None:
    with Terminal(filled, "sessions", *arguments, program=SLOW_COMMAND) as terminal:
        assert terminal.finish() == 0
    assert "100%" in terminal.screen


def test_emptying_a_full_trash_shows_a_bar(hermes: Hermes) -> None:
    with hermes.db() as db:
        for number in range(120):
            db.create_session(f"s{number}", "cli")
        for number in range(120):
            db.trash_sessions([f"s{number}"])
    arguments = ["sessions", "trash", "--empty", "--yes"]
    with Terminal(hermes, *arguments, program=SLOW_COMMAND) as terminal:
        assert terminal.finish() == 0
    assert "100%" in terminal.screen
    assert "Deleted 120 sessions (0 messages) permanently." in terminal.screen
    with hermes.db() as db:
        assert db.list_trash() == []


@pytest.mark.parametrize("flag", ["--plain", "--json"])
def test_no_bar_in_plain_output(filled: Hermes, flag: str) -> None:
    arguments = ["sessions", "prune", "--yes", flag]
    with Terminal(filled, *arguments, program=SLOW_COMMAND) as terminal:
        assert terminal.finish() == 0
    assert "%" not in terminal.screen
    assert "\x1b" not in terminal.screen


def test_no_bar_for_quick_work(filled: Hermes) -> None:
    with Terminal(filled, "sessions", "delete", OLD, "--purge", "--yes") as terminal:
        assert terminal.finish() == 0
    assert terminal.screen == "Deleted 1 session (1 message) permanently.\n"


# ── pipes ─────────────────────────────────────────────────────────────────────────────────────


def test_a_pipe_gets_the_same_table_without_colour(filled: Hermes) -> None:
    result = filled.run("sessions", "list")
    assert (result.code, result.err) == (0, "")
    assert "\x1b" not in result.out
    assert result.out.splitlines()[1] == "─" * 110
    narrow = filled.run("sessions", "list", environ={"COLUMNS": "60"})
    assert max(map(len, narrow.out.splitlines())) <= 60


def test_a_reader_who_leaves_early_is_not_a_failure(filled: Hermes) -> None:
    for arguments in (["sessions", "list"], ["sessions", "list", "--json"], ["--help"]):
        reading, writing = os.pipe()
        os.close(reading)
        process = filled.start(*arguments, stdout=writing)
        os.close(writing)
        _, err = process.communicate()
        assert (process.returncode, err) == (141, "")


def test_a_full_disk_is_one_line(filled: Hermes) -> None:
    for arguments in (["sessions", "list"], ["sessions", "list", "--json"], ["--help"]):
        with Path("/dev/full").open("w") as full:
            result = filled.run(*arguments, stdout=full)
        assert result.code == 1
        assert result.err == "Error: standard output: No space left on device.\n"


def test_an_encoding_without_the_characters_is_not_a_failure(filled: Hermes) -> None:
    environ = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    text = filled.run("sessions", "list", environ=environ, encoding="ascii")
    assert (text.code, text.err) == (0, "")
    assert "----" in text.out
    assert "\\u65c5" in text.out
    # JSON is UTF-8 by definition.
    as_json = filled.run("sessions", "list", "--json", environ=environ)
    assert "旅行の計画 🚀" in {session["title"] for session in as_json.json["sessions"]}


def test_all_names_of_the_command(filled: Hermes) -> None:
    with Terminal(filled, "--version") as terminal:
        assert terminal.finish() == 0
    assert terminal.screen.startswith("Hermes Sessions 0.")
    for name in ("hermes", "hermes-sessions"):
        assert filled.run("--version", name=name).out == terminal.screen
        assert f"Try '{name} sessions --help'" in filled.run("sessions", "x", name=name).err
