"""`hermes sessions browse`: keys, rows, layout, and a run in a real terminal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.cli.console import Console
from hermes_sessions.cli.sessions.browse import Screen
from hermes_sessions.cli.sessions.browse_picker import Picker, Row, rows_for
from tests.cli.harness import NOW, Hermes
from tests.cli.sample_store import AUTH, OLD, PLAN, PROJECT, TOOL, WEATHER
from tests.cli.terminal import Terminal, without_escapes

GOLDEN = Path(__file__).parent / "screens"


class Endless:
    """A list of very many rows that counts how many were requested."""

    def __init__(self, total: int = 50_000) -> None:
        self.total = total
        self.taken = 0

    def __call__(self, text: str) -> Iterator[Row]:
        for number in range(self.total if not text else len(text)):
            self.taken += 1
            yield Row(f"s{number}", f"{text}{number}", "cli", NOW - number)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────


def test_only_what_is_looked_at_is_read() -> None:
    endless = Endless()
    picker = Picker(endless)
    assert endless.taken <= 100
    for _ in range(200):
        picker.move(1)
    assert picker.selected == 200
    assert endless.taken <= 300
    assert picker.has_more


def test_typing_searches_and_the_first_row_is_chosen() -> None:
    picker = Picker(Endless())
    picker.move(3)
    for character in "abq":
        picker.type(character)
    assert (picker.text, picker.selected) == ("abq", 0)
    assert picker.chosen is not None
    assert picker.chosen.name == "abq0"
    assert not picker.has_more
    picker.erase()
    assert picker.text == "ab"
    picker.type("\x01")
    assert picker.text == "ab"


def test_escape_clears_and_then_leaves() -> None:
    picker = Picker(Endless())
    picker.type("x")
    picker.escape()
    assert (picker.text, picker.left) == ("", False)
    picker.escape()
    assert picker.left


def test_q_leaves_only_when_nothing_was_typed() -> None:
    picker = Picker(Endless())
    picker.type("a")
    picker.type("q")
    assert (picker.text, picker.left) == ("aq", False)
    picker.clear()
    picker.type("q")
    assert picker.left


def test_the_ends_of_the_list_meet() -> None:
    picker = Picker(Endless(total=3))
    picker.move(-1)
    assert picker.selected == 2
    picker.move(1)
    assert picker.selected == 0
    picker.move(10)
    assert picker.selected == 2
    picker.move(-10)
    assert picker.selected == 0
    picker.last()
    assert picker.selected == 2
    picker.first()
    assert picker.selected == 0


def test_an_empty_list() -> None:
    picker = Picker(Endless(total=0))
    picker.move(1)
    picker.last()
    assert picker.chosen is None


# ── what is listed ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("", None, [AUTH, PROJECT, WEATHER, PLAN, OLD]),
        ("", "tool", [TOOL]),
        ("refac", None, [AUTH]),
        ("weath", None, [WEATHER]),
        ("vegas", "cli", []),
        ("20250303", None, [WEATHER]),
        ("旅行", None, [PLAN]),
        ("integration", None, []),
        ('"las', None, [WEATHER]),
    ],
)
def test_titles_texts_and_ids_are_found(
    filled: Hermes, text: str, source: str | None, expected: list[str]
) -> None:
    with filled.db() as db:
        rows = rows_for(db, text, source, ("tool",))
        assert [row.id for row in rows][: len(expected) or 9] == expected


def test_pages_follow_each_other(hermes: Hermes) -> None:
    with hermes.db() as db:
        for number in range(120):
            db.create_session(f"s{number:03}", "cli", started_at=NOW - number)
            db.append_message(f"s{number:03}", "user", "hello", timestamp=NOW - number)
        for text in ("", "hello"):
            ids = [row.id for row in rows_for(db, text, None, ())]
            assert len(ids) == len(set(ids)) == 120


# ── how it looks ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "columns", "lines", "typed"),
    [
        ("wide", 120, 14, ""),
        ("narrow", 70, 20, ""),
        ("small", 40, 5, ""),
        ("found", 120, 14, "token"),
        ("nothing", 70, 8, "nowhere"),
    ],
)
def test_screens(
    filled: Hermes,
    pytestconfig: pytest.Config,
    name: str,
    columns: int,
    lines: int,
    typed: str,
) -> None:
    filled.call("sessions", "pin", WEATHER)
    with filled.db() as db:
        picker = Picker(lambda text: rows_for(db, text, None, ("tool",)))
        picker.type(typed)
        screen = Screen(Console(clock=lambda: NOW, plain=False, environ={}), db, picker)
        drawn = screen.draw(columns, lines)
    assert len(drawn) == lines
    text = "".join("".join(part for _, part in line).rstrip() + "\n" for line in drawn)
    file = GOLDEN / f"browse-{name}.txt"
    if pytestconfig.getoption("--update-golden", default=False):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


# ── on a terminal ─────────────────────────────────────────────────────────────────────────────


def test_typing_and_enter_resume_a_session(filled: Hermes) -> None:
    # No question is sent to the model, so no server has to answer.
    endpoint = {"HERMES_BASE_URL": "http://127.0.0.1:9/v1", "HERMES_MODEL": "m"}
    environ = {**endpoint, "PROMPT_TOOLKIT_NO_CPR": "1"}
    with Terminal(filled, "sessions", "browse", columns=120, **environ) as terminal:
        terminal.wait_for("refactoring auth")
        terminal.keys("vegas")
        terminal.wait_for("Las Vegas")
        terminal.screen = ""
        terminal.keys("\r")
        terminal.wait_for("❯")
        assert "Sunny, 18 °C." in without_escapes(terminal.screen)
        terminal.keys("\x04")
        assert terminal.finish() == 0
    assert WEATHER in terminal.screen


def test_arrows_and_json(filled: Hermes) -> None:
    with Terminal(filled, "sessions", "browse", "--json", "--source", "cli") as terminal:
        terminal.wait_for("refactoring auth")
        terminal.keys("\x1b[B\r")
        assert terminal.finish() == 0
    assert f'"command": "hermes --resume {PROJECT}"' in terminal.screen


@pytest.mark.parametrize(("typed", "code"), [("q", 1), ("\x04", 1), ("\x03", 130)])
def test_leaving(filled: Hermes, typed: str, code: int) -> None:
    with Terminal(filled, "sessions", "browse") as terminal:
        terminal.wait_for("refactoring auth")
        terminal.keys(typed)
        assert terminal.finish() == code
    assert "hermes --resume" not in terminal.screen


def test_escape_twice(filled: Hermes) -> None:
    with Terminal(filled, "sessions", "browse", columns=110) as terminal:
        terminal.wait_for("refactoring auth")
        terminal.keys("nowhere")
        terminal.wait_for("Nothing found.")
        terminal.screen = ""
        terminal.keys("\x1b")
        terminal.wait_for("refactoring auth")
        terminal.keys("\x1b")
        assert terminal.finish() == 1


def test_a_small_window_is_refused(filled: Hermes) -> None:
    with Terminal(filled, "sessions", "browse", columns=30) as terminal:
        assert terminal.finish() == 1
    assert "The window is too small for browsing" in terminal.screen


def test_without_a_terminal(filled: Hermes) -> None:
    result = filled.call("sessions", "browse", "--plain")
    assert (result.code, result.out) == (1, "")
    assert "needs a terminal" in result.err


WITHOUT_TOOLKIT = """
import sys
sys.modules["prompt_toolkit"] = None
from hermes_sessions.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def test_without_prompt_toolkit(filled: Hermes) -> None:
    with Terminal(filled, "sessions", "browse", program=WITHOUT_TOOLKIT) as terminal:
        assert terminal.finish() == 1
    assert "pip install 'hermes-sessions[chat]'" in terminal.screen.replace("\n", "")
