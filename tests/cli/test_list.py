"""hermes sessions list."""

import sqlite3
from contextlib import closing

from hermes_sessions import SessionDB
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
