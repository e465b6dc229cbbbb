"""hermes sessions list."""

import inspect
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.cli.session_list import print_sessions
from hermes_sessions.cli.sessions.list import list_sessions
from tests.cli.harness import NOW, Hermes, Result
from tests.cli.sample_store import (
    ARCHIVED,
    AUTH,
    OLD,
    PLAN,
    PROJECT,
    PROJECT_1,
    PROJECT_2,
    SUBAGENT,
    TOOL,
    WEATHER,
    label,
)


def ids(result: Result) -> list[str]:
    assert result.code == 0, result.err
    return [session["id"] for session in result.json["sessions"]]


def test_newest_activity_comes_first_one_row_per_conversation(filled: Hermes) -> None:
    listed = filled.call("sessions", "list", "--json")
    assert ids(listed) == [AUTH, PROJECT, WEATHER, PLAN, OLD]
    text = filled.call("sessions", "list")
    assert [line.split()[-1] for line in text.out.splitlines()[2:]] == ids(listed)
    assert text.err == ""


def test_by_start(filled: Hermes) -> None:
    # The conversation's start counts, not that of its newest part.
    listed = filled.call("sessions", "list", "--by-start", "--json")
    assert ids(listed) == [AUTH, WEATHER, PROJECT, PLAN, OLD]
    assert "Started" in filled.call("sessions", "list", "--by-start").out


def test_limit_and_all(filled: Hermes) -> None:
    assert ids(filled.call("sessions", "list", "--limit", "2", "--json")) == [AUTH, PROJECT]
    with filled.db() as db:
        for number in range(30):
            db.create_session(f"more{number}", "cli", started_at=NOW + number)
    assert len(ids(filled.call("sessions", "list", "--json"))) == 20
    assert len(ids(filled.call("sessions", "list", "--all", "--json"))) == 35


def test_source_archived_and_children(filled: Hermes) -> None:
    assert ids(filled.call("sessions", "list", "--source", "telegram", "--json")) == [WEATHER]
    assert ids(filled.call("sessions", "list", "--source", "tool", "--json")) == [TOOL]
    assert ids(filled.call("sessions", "list", "--archived", "--json")) == [ARCHIVED]
    children = ids(filled.call("sessions", "list", "--children", "--json"))
    assert {SUBAGENT, PROJECT_1, PROJECT_2} <= set(children)
    assert TOOL not in children


def test_nothing_to_list(hermes: Hermes) -> None:
    assert hermes.call("sessions", "list") == Result(0, "No sessions found.\n", "")
    assert ids(hermes.call("sessions", "list", "--json")) == []
    hermes.call("sessions", "list", "--source", "nowhere")


def test_without_titles_the_source_is_shown(filled: Hermes) -> None:
    out = filled.call("sessions", "list", "--source", "telegram").out.splitlines()
    assert out[0].split() == ["Preview", "Last", "Active", "Src", "ID"]
    assert out[2].split() == [*"What's the weather in Las Vegas? 3d ago telegram".split(), WEATHER]


def test_listing_does_not_change_the_store(filled: Hermes) -> None:
    before = filled.store.read_bytes()
    assert filled.call("sessions", "list").code == 0
    assert filled.store.read_bytes() == before
    with SessionDB(filled.store) as db:
        assert db.session_count(include_archived=True) == 10


def test_json_has_the_documented_keys(filled: Hermes) -> None:
    first = filled.call("sessions", "list", "--json").json["sessions"][0]
    assert first["title"] == "refactoring auth"
    assert first["preview"] == "Help me refactor the auth module please"
    assert first["last_active"] == NOW - 2 * 3600
    assert first["input_tokens"] == 1200
    assert "system_prompt" not in first


def test_what_other_programs_changed_is_listed_at_once(hermes: Hermes) -> None:
    """The command reads; what depends on the change is worked out by a handle that may write."""
    with hermes.db() as db:
        db.create_session("s1", "cli")
        db.append_message("s1", "user", "Before")
    with closing(sqlite3.connect(hermes.home / "state.db")) as connection, connection:
        connection.execute("UPDATE messages SET content = 'After'")
        connection.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) "
            "VALUES ('s1', 'user', 'A date as text', '2001-02-03 04:05:06')"
        )
        connection.execute("UPDATE messages SET timestamp = '2001-02-03T04:05:07'")
    [listed] = hermes.call("sessions", "list", "--json").json["sessions"]
    assert (listed["preview"], listed["last_active"]) == ("After", 981173107.0)


# ── without options, no parser is loaded ──────────────────────────────────────────────────────

PLAIN = ("sessions", "list")
PARSED = ("sessions", "list", "--limit", "20")


def test_without_options_every_default_is_the_declared_one() -> None:
    declared = list_sessions.make_context("list", [], obj=None).params
    used = inspect.signature(print_sessions).parameters
    assert used["limit"].default == declared["limit"]
    own = {name for name in used if name in declared} - {"limit"}
    assert own == {"source", "everything", "by_start", "user", "archived", "pinned", "children"}
    assert {name: used[name].default for name in own} == {name: declared[name] for name in own}
    selected = used["selection"].default._asdict()
    assert selected == {name: declared[name] for name in selected}
    # The rest: given as times, and the two that every command has.
    assert declared.keys() - own - selected.keys() == {
        "limit",
        "since",
        "until",
        "as_json",
        "plain",
    }


def nothing(_home: Path) -> None:
    pass


def no_store(home: Path) -> None:
    (home / "state.db").unlink()


def no_home(home: Path) -> None:
    no_store(home)
    home.rmdir()


def empty_store(home: Path) -> None:
    no_store(home)
    SessionDB(home / "state.db").close()


def damaged_store(home: Path) -> None:
    (home / "state.db").write_text("not a database, but long enough to look at " * 100)


def store_is_a_directory(home: Path) -> None:
    no_store(home)
    (home / "state.db").mkdir()


def labels(home: Path) -> None:
    with SessionDB(home / "state.db", clock=lambda: NOW) as db:
        label(db)


def many_sessions(home: Path) -> None:
    with SessionDB(home / "state.db", clock=lambda: NOW) as db:
        for number in range(30):
            db.create_session(f"more{number}", "cli", started_at=NOW + number)
        db.create_session("odd \x1b[31m", "tool")
        db.set_session_title("more3", "Gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n 日本語 👍🏽")


def warning_in_settings(home: Path) -> None:
    (home / "config.yaml").write_text("sessiondb:\n  providr: sqlite\n")


def wrong_settings(home: Path) -> None:
    (home / "config.yaml").write_text("sessiondb:\n  provider: [\n")


@pytest.mark.parametrize(
    "arrange",
    [
        nothing,
        no_store,
        no_home,
        empty_store,
        damaged_store,
        store_is_a_directory,
        labels,
        many_sessions,
        warning_in_settings,
        wrong_settings,
    ],
)
@pytest.mark.parametrize(
    "environ", [{}, {"COLUMNS": "60"}, {"COLUMNS": "120", "NO_COLOR": "1"}], ids=str
)
def test_without_options_it_prints_what_the_parsed_command_prints(
    filled: Hermes, arrange: Callable[[Path], None], environ: dict[str, str]
) -> None:
    arrange(filled.home)
    plain = filled.call(*PLAIN, environ=environ)
    assert plain == filled.call(*PARSED, environ=environ)
    assert plain.out or plain.err


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_without_options_a_process_prints_the_same_bytes(filled: Hermes, encoding: str) -> None:
    def output(arguments: tuple[str, ...]) -> tuple[int, bytes | str, bytes | str]:
        process = filled.start(*arguments, encoding=None, environ={"PYTHONIOENCODING": encoding})
        out, err = process.communicate()
        return process.returncode, out, err

    assert output(PLAIN) == output(PARSED)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_without_options_it_fails_as_the_parsed_command_fails(filled: Hermes) -> None:
    def on_full_disk(arguments: tuple[str, ...]) -> tuple[int, str]:
        with Path("/dev/full").open("w") as full:
            process = filled.start(*arguments, stdout=full)
            _, err = process.communicate()
        return process.returncode, err

    def into_closed_pipe(arguments: tuple[str, ...]) -> tuple[int, str]:
        read, write = os.pipe()
        os.close(read)
        process = filled.start(*arguments, stdout=write)
        os.close(write)
        _, err = process.communicate()
        return process.returncode, err

    assert on_full_disk(PLAIN) == on_full_disk(PARSED)
    assert on_full_disk(PLAIN)[0] == 1
    assert into_closed_pipe(PLAIN) == into_closed_pipe(PARSED) == (141, "")
