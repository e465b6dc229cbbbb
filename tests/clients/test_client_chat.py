"""The unmodified hermes-agent 0.19.0 chats, resumes and searches, on each database."""

from __future__ import annotations

import json

import pytest

from tests.clients.adopted import FIRST, IS_STOCK, SECOND, Home, session_id_in

pytestmark = pytest.mark.slow


def roles(home: Home) -> list[str]:
    return [message["role"] for message in home.model.requests[-1].body["messages"]]


def test_a_first_chat(home: Home) -> None:
    shown = home.shown("chat", "-q", "hello pineapple one")
    assert "echo: hello pineapple one" in shown
    session_id = session_id_in(shown)
    assert f"hermes --resume {session_id}" in shown
    assert "2 (1 user, 0 tool calls)" in shown
    session = home.ask(f"db.get_session({session_id!r})")
    assert session["cwd"] == str(home.place)
    expected = {
        "source": "cli",
        "message_count": 2,
        "api_call_count": 1,
        "input_tokens": 100,
        "billing_provider": "custom",
        "ended_at": None,
    }
    assert {name: session[name] for name in expected} == expected
    assert session["system_prompt"]
    usage = "SELECT model, input_tokens FROM session_model_usage WHERE task = ''"
    assert home.ask(f"[tuple(row) for row in db._conn.execute({usage!r})]") == [["fake-model", 100]]


def test_a_quiet_chat_and_its_continuation(home: Home) -> None:
    quiet = home.run("chat", "-q", "second", "-Q")
    assert quiet.stdout.splitlines()[-1] == "echo: second"
    session_id = session_id_in(quiet.stderr)
    assert f"session_id: {session_id}" in quiet.stderr

    shown = home.shown("chat", "-c", "-q", "third")
    assert f"Resumed session {session_id}" in shown
    assert "(1 user message, 2 total messages)" in shown
    assert roles(home) == ["system", "user", "assistant", "user"]
    assert home.ask(f"db.get_session({session_id!r})['message_count']") == 4
    assert home.ask("db.session_count()") == 1


def test_resuming_by_id(home: Home) -> None:
    home.seed_two()
    done = home.run("chat", "-r", FIRST, "-q", "fourth", "-Q")
    assert FIRST in done.stderr
    assert "echo: fourth" in done.stdout
    assert roles(home) == ["system", "user", "assistant", "user"]
    contents = [message["content"] for message in home.ask(f"db.get_messages({FIRST!r})")]
    assert contents == [
        "hello pineapple one",
        "echo: hello pineapple one",
        "fourth",
        "echo: fourth",
    ]


@pytest.mark.parametrize("name", ["nope_nope", FIRST[:12]])
def test_resuming_what_does_not_exist(home: Home, name: str) -> None:
    home.seed_two()
    shown = home.shown("chat", "-r", name, "-q", "x", "-Q", status=1)
    assert f"Session not found: {name}" in shown
    assert home.ask("db.session_count()") == 2


def test_resuming_by_title(home: Home) -> None:
    home.seed_two(then=f"db.set_session_title({FIRST!r}, 'My Fruit Chat')")
    for number, option in enumerate(("-r", "-c"), start=1):
        shown = home.shown("chat", option, "My Fruit Chat", "-q", "x", "-Q")
        assert '"My Fruit Chat"' in shown
        assert home.ask(f"db.get_session({FIRST!r})['message_count']") == 2 + 2 * number


def test_one_answer(home: Home) -> None:
    done = home.run("-z", "oneshot")
    assert "echo: oneshot" in done.stdout
    [session] = home.ask("db.list_sessions_rich()")
    assert session["end_reason"] == "agent_close"


def test_recall(home: Home) -> None:
    home.seed_two(then=f"db.set_session_title({FIRST!r}, 'My Fruit Chat')")
    shown = home.shown("chat", "-q", "CALLSEARCH pineapple", "-Q")
    session_id = session_id_in(shown.partition("session_id:")[2])
    messages = home.ask(f"db.get_messages({session_id!r})")
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1]["tool_calls"]
    assert messages[2]["tool_name"] == "session_search"
    found = json.loads(messages[2]["content"])
    assert (found["success"], found["mode"]) == (True, "discover")
    first = found["results"][0]
    assert first["session_id"] == FIRST
    assert ">>>pineapple<<<" in first["snippet"]
    assert first["title"] == "My Fruit Chat"
    assert [message for message in first["messages"] if message.get("anchor")]
    assert home.ask(f"db.get_session({session_id!r})['tool_call_count']") == 1


def test_recall_without_words(home: Home) -> None:
    home.seed_two()
    shown = home.shown("chat", "-q", "CALLSEARCH", "-Q")
    session_id = session_id_in(shown.partition("session_id:")[2])
    found = json.loads(home.ask(f"db.get_messages({session_id!r})")[2]["content"])
    assert (found["success"], found["mode"]) == (True, "browse")
    listed = [result["session_id"] for result in found["results"]]
    assert sorted(listed) == [FIRST, SECOND]


def test_compaction(home: Home) -> None:
    home.configure(context_length=66_000)
    words = [f"word{number} " + "many long words about nothing " * 60 for number in range(120)]
    home.seed((FIRST, words), then=f"db.set_session_title({FIRST!r}, 'Big One')")
    shown = home.shown("chat", "-r", "Big One", "-q", "after big", "-Q")
    assert "60 user messages, 120 total" in shown
    assert "echo: after big" in shown
    states = home.ask(
        f"[(each['active'], each['compacted'])"
        f" for each in db.get_messages({FIRST!r}, include_inactive=True)]"
    )
    live = states.count([1, 0])
    assert states.count([0, 1]) == 120
    assert 2 < live == len(states) - 120
    session = home.ask(f"db.get_session({FIRST!r})")
    assert (session["message_count"], session["end_reason"]) == (live, None)
    tasks = "SELECT task FROM session_model_usage ORDER BY task"
    assert "compression" in home.ask(f"[row[0] for row in db._conn.execute({tasks!r})]")
    [hit] = home.ask("db.search_messages('word3', limit=1)")
    assert hit["session_id"] == FIRST
    if not IS_STOCK:
        assert home.ask("db.session_count()") == 1
