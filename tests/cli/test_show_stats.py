"""hermes sessions show and stats."""

import pytest

from tests.cli.harness import NOW, Hermes
from tests.cli.sample_store import AUTH, PROJECT, PROJECT_1, PROJECT_2, SUBAGENT, WEATHER


@pytest.mark.parametrize(
    "reference", [[AUTH], ["20250305_0915"], ["refactoring auth"], ["refactoring", "auth"]]
)
def test_a_session_is_found_by_id_prefix_and_title(filled: Hermes, reference: list[str]) -> None:
    result = filled.call("sessions", "show", *reference)
    assert result.code == 0, result.err
    assert f"ID:           {AUTH}\n" in result.out
    assert f"Child:        {SUBAGENT} (subagent)\n" in result.out


def test_an_exact_title_wins_over_its_family(filled: Hermes) -> None:
    assert (
        filled.call("sessions", "show", "my project", "--json").json["session"]["id"] == PROJECT_1
    )
    with filled.db() as db:
        db.set_session_title(PROJECT_1, "another name")
    # No session has that title any more: the most recently active numbered one is meant.
    assert filled.call("sessions", "show", "my project", "--json").json["session"]["id"] == PROJECT


def test_how_many_messages(filled: Hermes) -> None:
    last = filled.call("sessions", "show", AUTH, "--messages", "1", "--json").json
    assert (last["earlier_messages"], len(last["messages"])) == (3, 1)
    assert last["messages"][0]["role"] == "assistant"
    none = filled.call("sessions", "show", AUTH, "--messages", "0")
    assert "… 4 earlier messages …" in none.out
    assert "assistant" not in none.out
    every = filled.call("sessions", "show", AUTH, "--full", "--messages", "1", "--json").json
    assert [message["role"] for message in every["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_the_messages_around_one(filled: Hermes) -> None:
    shown = filled.call(
        "sessions", "show", AUTH, "--around", "14", "--messages", "3", "--json"
    ).json
    assert [message["id"] for message in shown["messages"]] == [13, 14, 15]
    assert (shown["earlier_messages"], shown["later_messages"]) == (0, 1)
    alone = filled.call("sessions", "show", AUTH, "--around", "15", "--messages", "0").out
    assert "… 2 earlier messages …" in alone
    # What was asked for is shown whole.
    assert "terminal  2025-03-05 10:00:03  ← message 15\n  auth/session.py\n" in alone
    assert "  auth/views.py\n\n… 1 later message …\n" in alone
    plain = filled.call("sessions", "show", AUTH, "--around", "15", "--plain").out
    assert "10:00:03  <- message 15\n" in plain


@pytest.mark.parametrize(
    ("number", "code", "complaint"),
    [
        ("11", 1, f"Session {AUTH} has no message 11."),
        ("9999", 1, "has no message 9999"),
        ("0", 2, "'0' is not a whole number (1 or more)."),
        ("last", 2, "'last' is not a whole number"),
    ],
)
def test_a_message_that_is_not_there(
    filled: Hermes, number: str, code: int, complaint: str
) -> None:
    result = filled.call("sessions", "show", AUTH, "--around", number)
    assert (result.code, result.out) == (code, "")
    assert complaint in result.err


def test_full_text(filled: Hermes) -> None:
    assert "… 1 more line" in filled.call("sessions", "show", AUTH).out
    assert "auth/views.py" in filled.call("sessions", "show", AUTH, "--full").out


def test_a_long_session_is_shown_in_order(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("long", "cli")
        db.append_messages("long", [{"role": "user", "content": f"m{n}"} for n in range(450)])
    shown = hermes.call("sessions", "show", "long", "--full", "--json").json
    assert [message["content"] for message in shown["messages"]] == [f"m{n}" for n in range(450)]


def test_messages_taken_back_are_not_shown(filled: Hermes) -> None:
    with filled.db() as db:
        first = db.get_messages(WEATHER)[0]["id"]
        db.rewind_to_message(WEATHER, first)
    shown = filled.call("sessions", "show", WEATHER, "--json").json
    assert shown["messages"] == []
    assert shown["earlier_messages"] == 0


def test_content_that_is_not_text(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", b"\x00\xff")
        db.append_message("s", "user", "half \ud83d and \x00 and \x1b[2J")
    assert hermes.call("sessions", "show", "s").out.count("�") == 3
    shown = hermes.call("sessions", "show", "s", "--json").json["messages"]
    assert shown[0]["content"] == {"base64": "AP8="}
    assert shown[1]["content"] == "half \ud83d and \x00 and \x1b[2J"


def test_an_empty_session_was_active_when_it_started(hermes: Hermes) -> None:
    with hermes.db() as db:
        db.create_session("s", "cli", started_at=NOW - 60)
    assert hermes.call("sessions", "show", "s", "--json").json["session"]["last_active"] == NOW - 60


def test_parts_of_a_conversation_name_each_other(filled: Hermes) -> None:
    out = filled.call("sessions", "show", PROJECT_2).out
    assert f"Parent:       {PROJECT_1} (compression)\n" in out
    assert f"Child:        {PROJECT} (compression)\n" in out


def test_stats(filled: Hermes) -> None:
    with filled.db() as db:
        db.trash_sessions([WEATHER])
    result = filled.call("sessions", "stats")
    assert result.code == 0
    assert result.out.splitlines()[:-2] == [
        "Total sessions: 9",
        "Total messages: 16",
        "  cli: 7 sessions",
        "  discord: 1 session",
        "  tool: 1 session",
        "Archived: 1 session",
        "In the trash: 1 session",
    ]
    assert result.out.splitlines()[-2].startswith("Database size: ")
    assert result.out.splitlines()[-1] == "Search index: complete"
    counted = filled.call("sessions", "stats", "--json").json
    assert counted["sources"]["discord"] == {"sessions": 1, "messages": 1}
    assert counted["size_bytes"] > 0


def test_stats_of_an_empty_store(hermes: Hermes) -> None:
    lines = hermes.call("sessions", "stats").out.splitlines()
    assert lines[:2] == ["Total sessions: 0", "Total messages: 0"]
    assert lines[-1] == "Search index: complete"
    with hermes.db():
        pass  # made by a program that stored nothing
    assert hermes.call("sessions", "stats").out.splitlines()[-1] == "Search index: complete"


def test_space_within_the_time_given(filled: Hermes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What there was no time for is not left out without a word."""
    whole = filled.call("sessions", "stats", "--space", "--full", "--json").json["space"]
    assert (whole["complete"], whole["text_complete"], whole["uncounted_bytes"]) == (True, True, 0)
    assert filled.call("sessions", "stats", "--space", "--json").json["space"] == whole
    assert "There was no time" not in filled.call("sessions", "stats", "--space").out
    monkeypatch.setattr("hermes_sessions.cli.sessions.stats.SECONDS", 0.0)
    partial = filled.call("sessions", "stats", "--space", "--json").json["space"]
    assert (partial["complete"], partial["text_messages"], partial["tables"]) == (False, 0, {})
    assert partial["uncounted_bytes"] > 0
    lines = filled.call("sessions", "stats", "--space").out.splitlines()
    assert "By class (text of the newest 0 messages only):" in lines
    assert lines[-2].startswith("Not measured: ")
    assert lines[-1].endswith("hermes sessions stats --space --full")
    assert filled.call("sessions", "stats", "--space", "--full", "--json").json["space"] == whole


def test_a_full_look_is_one_at_space(filled: Hermes) -> None:
    result = filled.call("sessions", "stats", "--full")
    assert (result.code, "--full requires --space" in result.err) == (2, True)
