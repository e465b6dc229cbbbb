"""What is out of scope does not exist: not in any text, count, order or error.

The strongest form of that: whatever others have stored, the answers are the ones of a store in
which they never stored anything.
"""

import json
from collections.abc import Callable, Iterator
from datetime import UTC
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.recall import call, session_search
from hermes_sessions.recall.scoped_store import ScopedStore
from hermes_sessions.text.query.filters import SearchConditions
from hermes_sessions_testing.clock import FrozenClock
from tests.recall.conversations import HOUR, MORNING, continue_in, talk

SECRET = "Zanzibar"
ANNA = Scope(user_id="anna")
CLOCK = FrozenClock(MORNING + 24 * HOUR)

Answer = dict[str, Any]
Function = Callable[..., Answer]


def fill_for_anna(db: SessionDB) -> None:
    talk(db, "a-plan", "the kettle is blue", "yes, and the pot is red", title="Kettles")
    continue_in(db, "a-plan", "a-more", "the kettle again", start=MORNING + HOUR)
    talk(db, "a-run", "kettle check", source="cron")
    talk(db, "a-long", *[f"kettle {i}" for i in range(40)], start=MORNING + 2 * HOUR)


def plant_for_bert(db: SessionDB) -> list[int]:
    """Store another person's text wherever it could slip out; return its messages."""
    said = f"kettle {SECRET} pot"
    bert: dict[str, Any] = {"user": "bert", "model": f"m-{SECRET}"}
    ids = talk(db, "b-own", said, said, title=f"Kettle {SECRET}", start=MORNING + 3 * HOUR, **bert)
    # In the very conversations of the person who asks.
    ids += talk(db, "b-branch", said, parent="a-plan", edge="branch", **bert)
    ids += talk(db, "b-helper", said, parent="a-more", edge="subagent", source="tool", **bert)
    ids += talk(db, "b-next", said, parent="a-more", edge="compression", **bert)
    ids += talk(db, f"{SECRET}-id", said, source=SECRET, **bert)
    ids += talk(db, "nobody", said, user=None, model=None)
    ids += talk(db, "b-noisy", *[said] * 300, start=MORNING + 4 * HOUR, **bert)
    call_of_tool = [{"id": "c", "function": {"name": SECRET, "arguments": json.dumps([said])}}]
    ids.append(db.append_message("b-own", "assistant", said, tool_calls=call_of_tool))
    ids.append(db.append_message("b-own", "tool", f"error {said}", tool_name=SECRET))
    return ids


@pytest.fixture(scope="module")
def alone() -> Iterator[SessionDB]:
    """A store with nobody else in it; tests only read it."""
    with SessionDB(":memory:", clock=CLOCK) as store:
        fill_for_anna(store)
        yield store


@pytest.fixture(scope="module")
def planted() -> Iterator[tuple[SessionDB, list[int]]]:
    """The same with others in it, and the others' messages; tests only read it."""
    with SessionDB(":memory:", clock=CLOCK) as store:
        fill_for_anna(store)
        yield store, plant_for_bert(store)


@pytest.fixture
def store(planted: tuple[SessionDB, list[int]]) -> SessionDB:
    return planted[0]


@pytest.fixture
def others(planted: tuple[SessionDB, list[int]]) -> list[int]:
    return planted[1]


def as_function(db: SessionDB, **arguments: Any) -> Answer:
    return session_search(db, **arguments, scope=ANNA, zone=UTC, clock=CLOCK)


def as_tool(db: SessionDB, **arguments: Any) -> Answer:
    current = arguments.pop("current_session_id", None)
    return call(db, arguments, scope=ANNA, current_session_id=current, zone=UTC, clock=CLOCK)


functions = pytest.mark.parametrize("function", [as_function, as_tool])

QUESTIONS: list[dict[str, Any]] = [
    {},
    {"limit": 10},
    {"source": "cron,tool"},
    {"source": SECRET},
    {"after": "2026-03-01", "limit": 10},
    {"current_session_id": "a-plan"},
    {"exclude_conversations": ["b-own"]},
    *[
        {"query": query, "limit": 10, **more}
        for query in (
            "kettle",
            "kettle OR pot",
            "kett*",
            "*ettl*",
            "NOT kettle",
            "the kettle and the pot of which",
            "kettle zeppelin",
            SECRET,
            f"{SECRET} kettle",
            "user:bert kettle",
            f"source:{SECRET} kettle",
            f'in:"Kettle {SECRET}" kettle',
            "session:b-own kettle",
            f"model:m-{SECRET} kettle",
            f"tool:{SECRET} kettle",
            "has:error kettle",
            "after:2020",
            "nothing at all like it",
        )
        for more in (
            {},
            {"role_filter": "all"},
            {"sort": "newest"},
            {"exclude_conversations": ["a-plan", "b-own"]},
        )
    ],
    {"session_id": "a-plan"},
    {"session_id": "a-more"},
    {"session_id": "a-plan", "around_message_id": 1},
    {"session_id": "a-plan", "around_message_id": 3},
    {"session_id": "a-long", "around_message_id": 20, "window": 20},
]


@functions
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: json.dumps(q)[:80])
def test_the_answer_is_the_one_of_a_store_without_the_others(
    store: SessionDB, alone: SessionDB, function: Function, question: dict[str, Any]
) -> None:
    answer = function(store, **question)
    assert answer == function(alone, **question)
    answer.pop("query", None)  # what was asked, in the asker's own words
    assert SECRET not in json.dumps(answer)


@functions
@pytest.mark.parametrize(
    "session_id",
    ["b-own", "b-branch", "b-helper", "b-next", f"{SECRET}-id", "nobody", "b-noisy", "unknown"],
)
def test_a_session_out_of_scope_is_an_unknown_one(
    store: SessionDB, others: list[int], function: Function, session_id: str
) -> None:
    expected = {"success": False, "error": "There is no session with that id."}
    assert function(store, session_id=session_id) == expected
    for message_id in (1, others[0], 10**9):
        around = {"session_id": session_id, "around_message_id": message_id}
        assert function(store, **around) == expected


@functions
def test_a_message_out_of_scope_is_an_unknown_one(
    store: SessionDB, others: list[int], function: Function
) -> None:
    for message_id in (*others[:12], 10**9):
        answer = function(store, session_id="a-plan", around_message_id=message_id)
        assert answer == {
            "success": False,
            "error": "There is no message with that id in that session.",
        }


def test_titles_of_others_do_not_crowd_out_ones_own(db: SessionDB) -> None:
    talk(db, "mine", "hello", title="The kettle plan")
    for i in range(60):
        talk(db, f"theirs{i}", "hello", title=f"Kettle {i}", user="bert")
    for query in ("kettle", "*ettl*"):
        (entry,) = session_search(db, query, scope=ANNA, clock=CLOCK)["results"]
        assert entry["session_id"] == "mine"


def test_the_summariser_gets_nothing_out_of_scope(store: SessionDB) -> None:
    sent: list[str] = []

    def summarise(prompt: str, text: str) -> str:
        sent.append(prompt + text)
        return "a summary"

    arguments = {"query": "kettle", "limit": 5}
    call(store, arguments, scope=ANNA, summarise=summarise, clock=CLOCK)
    assert len(sent) == 3
    assert not [text for text in sent if SECRET in text]


def test_a_root_out_of_scope_is_not_named(db: SessionDB) -> None:
    talk(db, "b-root", "hello", user="bert")
    talk(db, "a-child", "kettle", parent="b-root", edge="handoff")
    (entry,) = session_search(db, "kettle", scope=ANNA, clock=CLOCK)["results"]
    assert entry["session_id"] == "a-child"
    assert "parent_session_id" not in entry
    (entry,) = session_search(db, "kettle", scope=OWNER, clock=CLOCK)["results"]
    assert entry["parent_session_id"] == "b-root"


def test_scopes_by_source_and_by_conversation(db: SessionDB) -> None:
    talk(db, "here", "kettle", source="telegram")
    talk(db, "there", "kettle", source="discord")
    talk(db, "room", "kettle", user=None, source="telegram")
    cases = {
        Scope(user_id="anna", source="telegram"): ["here"],
        Scope(source="discord"): ["there"],
        Scope(conversation_ids=("room", "there")): ["room", "there"],
        Scope(conversation_ids=()): [],
        Scope(user_id="nobody"): [],
        OWNER: ["here", "room", "there"],
    }
    for scope, expected in cases.items():
        for arguments in ({"query": "kettle"}, {}):
            answer = call(db, arguments, scope=scope, clock=CLOCK)
            assert sorted(entry["session_id"] for entry in answer["results"]) == expected


def test_the_owner_sees_everything(store: SessionDB) -> None:
    answer = session_search(store, SECRET, limit=10, role_filter="all", clock=CLOCK)
    assert answer["count"] == 5
    assert session_search(store, session_id="b-own", clock=CLOCK)["success"]


def test_the_store_that_recall_reads_from_checks_every_single_read(store: SessionDB) -> None:
    anna = ScopedStore(store, ANNA)
    listed = anna.list_recent(source=None, exclude_sources=(), limit=1_000, offset=0)
    assert {session["user_id"] for session in listed} == {"anna"}
    hits = anna.search(SECRET, SearchConditions(), limit=10, sort="relevance", count=True)
    assert (hits.hits, hits.report.total, hits.report.removed) == ([], 0, {})
    for session in store.list_sessions_rich(limit=-1, include_children=True):
        if session["user_id"] != "anna":
            name, message = session["id"], store.get_messages(session["id"], limit=1)[0]["id"]
            assert anna.find_session(name) is None
            assert anna.list_conversation(name) == []
            assert anna.list_messages(name, limit=10) == []
            assert anna.messages_around(name, message, 5)["window"] == []
            assert anna.anchored_view(name, message)["window"] == []
