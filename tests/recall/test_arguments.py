"""Any arguments of a model get a result."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions import SessionDB
from hermes_sessions.errors import StoreClosed
from hermes_sessions.model.scope import OWNER, Scope
from hermes_sessions.recall import TOOL_SCHEMA, call, session_search
from hermes_sessions.recall.arguments import RecallArguments, read_arguments
from tests.recall.conversations import MORNING, ids_of, talk

PARAMETERS = TOOL_SCHEMA["function"]["parameters"]["properties"]


def read(**given_arguments: Any) -> RecallArguments:
    return read_arguments(given_arguments, now=MORNING)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (99, 10),
        (0, 1),
        (-5, 1),
        ("7", 7),
        (" 7 ", 7),
        (4.9, 4),
        ("4.9", 4),
        ("abc", 3),
        ("", 3),
        (None, 3),
        (True, 3),
        ([5], 3),
        ({}, 3),
        (float("nan"), 3),
        (float("inf"), 3),
        ("nan", 3),
        (10**400, 10),
        ("9" * 5_000, 3),
    ],
)
def test_limit(value: Any, expected: int) -> None:
    assert read(limit=value).limit == expected


@pytest.mark.parametrize(
    ("name", "low", "default", "high"),
    [("window", 1, 5, 20), ("max_tokens", 500, 8_000, 50_000), ("limit", 1, 3, 10)],
)
def test_numbers_are_clamped(name: str, low: int, default: int, high: int) -> None:
    assert getattr(read(), name) == getattr(read(**{name: "junk"}), name) == default
    assert getattr(read(**{name: -1}), name) == low
    assert getattr(read(**{name: 10**9}), name) == high
    schema = PARAMETERS[name]
    assert (schema["minimum"], schema["default"], schema["maximum"]) == (low, default, high)


@pytest.mark.parametrize(
    ("given_arguments", "mode"),
    [
        ({}, "browse"),
        ({"query": "  "}, "browse"),
        ({"query": None, "session_id": ""}, "browse"),
        ({"query": "tea"}, "discover"),
        ({"session_id": "s1"}, "read"),
        ({"session_id": "s1", "query": "tea"}, "read"),
        ({"session_id": "s1", "around_message_id": 4}, "scroll"),
        ({"session_id": "s1", "around_message_id": 4, "query": "tea"}, "scroll"),
        ({"around_message_id": 4}, "browse"),
        ({"around_message_id": 4, "query": "tea"}, "discover"),
    ],
)
def test_the_arguments_choose_the_shape(given_arguments: dict[str, Any], mode: str) -> None:
    assert read(**given_arguments).mode == mode


def test_lists_and_texts_with_commas() -> None:
    assert read(role_filter=" user , TOOL,").roles == ("user", "tool")
    assert read(role_filter=["user", 3, None]).roles == ("user", "3")
    assert read(role_filter="all").roles == ()
    assert read(role_filter={}).roles is None
    assert read(source="cli,cron").sources == ("cli", "cron")
    assert read(source="Telegram").sources == ("Telegram", "telegram")
    assert read(source=[]).sources is None
    assert read(exclude_conversations="a, b").exclude == ("a", "b")
    assert len(read(exclude_conversations=[str(i) for i in range(10_000)]).exclude) == 50


def test_sort() -> None:
    assert [read(sort=s).sort for s in ("NEWEST", "oldest", "best", 3, None)] == [
        "newest",
        "oldest",
        "relevance",
        "relevance",
        "relevance",
    ]


def test_queries_of_any_kind() -> None:
    assert read(query=42).query == "42"
    assert read(query=["blue", "kettle", {}]).query == "blue kettle"
    odd = read(query={"text": "kettle"})
    assert (odd.query, odd.notes) == ("", ("query was not text, so it was ignored.",))
    long = read(query="x" * 5_000)
    assert (len(long.query), len(long.notes)) == (1_000, 1)


def test_times() -> None:
    assert read(after="1d").after == MORNING - 86_400
    assert read(before=1_700_000_000).before == 1_700_000_000
    for odd in ("soon", 7, {}, True, "9" * 400):
        assert read(after=odd).after is None
        assert "after was not a date" in read(after=odd).notes[0]


@pytest.mark.parametrize("value", ["4", 4, 4.0, " 4 "])
def test_message_ids(value: Any) -> None:
    assert read(session_id="s", around_message_id=value).around_message_id == 4


@pytest.fixture
def filled(db: SessionDB) -> SessionDB:
    talk(db, "s1", "the blue kettle", "yes")
    return db


@pytest.mark.parametrize(
    "arguments",
    [
        {"session_id": ["s1"]},
        {"session_id": {}},
        {"session_id": "s1", "around_message_id": "first"},
        {"session_id": "s1", "around_message_id": 1.5},
        {"session_id": "s1", "around_message_id": True},
        {"session_id": "s1", "around_message_id": "9" * 5_000},
        {"session_id": "s1", "around_message_id": float("nan")},
        [],
        7,
        "not json",
        "[1]",
        "[" * 100_000,
    ],
)
def test_what_cannot_mean_anything_is_an_error(filled: SessionDB, arguments: Any) -> None:
    answer = call(filled, arguments, scope=OWNER)
    assert set(answer) == {"success", "error"}
    assert answer["success"] is False


def test_arguments_as_json_text(filled: SessionDB) -> None:
    assert ids_of(call(filled, '{"query": "kettle"}', scope=OWNER)) == ["s1"]
    assert call(filled, "", scope=OWNER)["mode"] == "browse"
    assert call(filled, None, scope=OWNER)["mode"] == "browse"


def test_what_was_ignored_is_noted(filled: SessionDB) -> None:
    answer = call(filled, {"around_message_id": 4, "after": "soon", "other": 1}, scope=OWNER)
    assert answer["notes"] == [
        "around_message_id needs session_id, so it was ignored.",
        "after was not a date such as 2026-05-01 or 7d, so it was ignored.",
    ]


def test_a_store_that_cannot_be_read(filled: SessionDB) -> None:
    filled.close()
    assert call(filled, {"query": "kettle"}, scope=OWNER) == {
        "success": False,
        "error": "The session store cannot be read at the moment.",
    }
    with pytest.raises(StoreClosed):
        session_search(filled, "kettle")


@pytest.fixture(scope="module")
def store() -> Iterator[SessionDB]:
    with SessionDB(":memory:") as db:
        talk(db, "s1", "the blue kettle", "yes", title="Kettle")
        talk(db, "s2", "日本語のやかん", "kettle 🫖", source="cron")
        yield db


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
likely = (
    st.sampled_from(["s1", "s2", "kettle", "やかん", "1", 1, 2, 3, "newest", "user", "7d", "", "-"])
    | json_values
)
objects = st.dictionaries(st.sampled_from(sorted(PARAMETERS)) | st.text(), likely, max_size=8)


@given(objects, st.sampled_from([OWNER, Scope(user_id="anna"), Scope(user_id="nobody")]))
def test_any_object_gets_an_answer(
    store: SessionDB, arguments: dict[str, Any], scope: Scope
) -> None:
    answer = call(store, arguments, scope=scope)
    assert isinstance(answer, dict)
    written = json.dumps(answer, allow_nan=False)
    assert json.loads(written) == answer
    if answer["success"] is True:
        assert answer["tokens"]["estimated"] <= answer["tokens"]["budget"]
    else:
        assert answer["success"] is False
        assert isinstance(answer["error"], str)


@given(json_values)
def test_any_value_gets_an_answer(store: SessionDB, arguments: Any) -> None:
    json.dumps(call(store, arguments, scope=OWNER), allow_nan=False)


@given(st.text(max_size=200))
def test_any_query_gets_an_answer(store: SessionDB, query: str) -> None:
    answer = call(store, {"query": query}, scope=OWNER)
    assert answer["success"] is True
    assert answer["count"] == len(answer["results"])


# ── what a model is told ──────────────────────────────────────────────────────────────────────


def test_the_schema_describes_every_argument() -> None:
    function = TOOL_SCHEMA["function"]
    assert (TOOL_SCHEMA["type"], function["name"]) == ("function", "session_search")
    assert json.loads(json.dumps(TOOL_SCHEMA)) == TOOL_SCHEMA
    assert set(PARAMETERS) == {
        "query",
        "limit",
        "sort",
        "role_filter",
        "source",
        "after",
        "before",
        "workspace",
        "session_id",
        "around_message_id",
        "window",
        "exclude_conversations",
        "max_tokens",
    }
    assert all(parameter["description"] for parameter in PARAMETERS.values())
    defaults = {name: p["default"] for name, p in PARAMETERS.items() if "default" in p}
    assert read(**defaults).mode == "browse"
