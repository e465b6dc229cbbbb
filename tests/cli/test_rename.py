"""hermes sessions rename."""

from tests.cli.harness import Hermes, Result
from tests.cli.sample_store import AUTH, PROJECT, PROJECT_1, WEATHER


def test_words_need_no_quotes_and_the_stored_title_is_shown(filled: Hermes) -> None:
    result = filled.call("sessions", "rename", WEATHER, "the", " sunny\u200b", "west")
    assert result == Result(0, f"Renamed session {WEATHER} to: the sunny west\n", "")
    with filled.db() as db:
        assert db.get_session_title(WEATHER) == "the sunny west"
    as_json = filled.call("sessions", "rename", "the sunny west", "--json", "west")
    assert as_json.json == {"id": WEATHER, "title": "west"}


def test_a_blank_title_clears(filled: Hermes) -> None:
    result = filled.call("sessions", "rename", AUTH, "")
    assert result == Result(0, f"Cleared the title of session {AUTH}.\n", "")
    assert filled.call("sessions", "rename", AUTH, "  ", "--json").json["title"] is None


def test_a_title_in_use_is_refused_and_its_holder_named(filled: Hermes) -> None:
    result = filled.call("sessions", "rename", WEATHER, "refactoring", "auth")
    assert (result.code, result.out) == (1, "")
    assert AUTH in result.err
    assert len(result.err.splitlines()) == 1


def test_a_title_of_an_earlier_part_moves(filled: Hermes) -> None:
    assert filled.call("sessions", "rename", PROJECT, "my project").code == 0
    with filled.db() as db:
        assert db.get_session_title(PROJECT_1) is None


def test_too_long(filled: Hermes) -> None:
    result = filled.call("sessions", "rename", AUTH, "x" * 101)
    assert result.code == 1
    assert "101 characters (max 100)" in result.err


def test_a_title_that_begins_with_a_dash(filled: Hermes) -> None:
    assert filled.call("sessions", "rename", AUTH, "--", "--yes").code == 0
    with filled.db() as db:
        assert db.get_session_title(AUTH) == "--yes"


def test_no_title_is_wrong_usage(filled: Hermes) -> None:
    result = filled.call("sessions", "rename", AUTH)
    assert result.code == 2
    assert "TITLE..." in result.err
