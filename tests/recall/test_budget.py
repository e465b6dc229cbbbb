import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions import SessionDB
from hermes_sessions.recall import session_search
from hermes_sessions.recall.budget import cut, cut_to_tokens, json_tokens, share_out
from tests.recall.conftest import Ask
from tests.recall.conversations import talk

LONG = "lorem ipsum dolor sit amet " * 150


@pytest.fixture
def long_sessions(db: SessionDB) -> dict[str, list[int]]:
    """Sessions of long messages with one match each, far inside."""
    return {
        f"s{i}": talk(db, f"s{i}", *[LONG] * 12, f"{LONG} the blue kettle {LONG}", *[LONG] * 12)
        for i in range(4)
    }


@pytest.mark.parametrize("max_tokens", [500, 777, 1_000, 3_000, 8_000, 50_000])
def test_no_answer_is_over_its_budget(
    ask: Ask, long_sessions: dict[str, list[int]], max_tokens: int
) -> None:
    middle = long_sessions["s0"][12]
    for question in (
        {"query": "kettle", "limit": 10},
        {"session_id": "s0"},
        {"session_id": "s0", "around_message_id": middle, "window": 20},
        {},
    ):
        answer = ask(**question, max_tokens=max_tokens)
        assert json_tokens(answer) <= max_tokens
        assert answer["tokens"] == {
            "budget": max_tokens,
            "estimated": json_tokens(answer),
            "estimate": "pieces of words",
        }
        assert answer.get("results") or answer.get("messages")


def test_most_of_the_budget_is_used(ask: Ask, long_sessions: dict[str, list[int]]) -> None:
    for question in ({"query": "kettle"}, {"session_id": "s0"}):
        assert ask(**question, max_tokens=4_000)["tokens"]["estimated"] > 3_600


def test_what_is_cut_is_cut_around_the_match(ask: Ask, long_sessions: dict[str, list[int]]) -> None:
    for max_tokens in (500, 1_000, 8_000):
        for entry in ask("kettle", max_tokens=max_tokens)["results"]:
            (match,) = [message for message in entry["messages"] if message.get("anchor")]
            assert "blue kettle" in match["content"]
            assert match["content"].startswith("...")
            assert match["content"].endswith("...")
            assert (match["truncated"], match["length"]) == (True, len(LONG) * 2 + 17)


def test_a_question_keeps_its_match_in_sight_when_scrolling(
    ask: Ask, long_sessions: dict[str, list[int]]
) -> None:
    around = {"session_id": "s0", "around_message_id": long_sessions["s0"][12], "max_tokens": 500}
    (match,) = [m for m in ask("kettle", **around)["messages"] if m.get("anchor")]
    assert "blue kettle" in match["content"]
    (match,) = [m for m in ask(**around)["messages"] if m.get("anchor")]
    assert match["content"].startswith("lorem")


def test_the_match_and_its_neighbours_stay_longest(
    ask: Ask, long_sessions: dict[str, list[int]]
) -> None:
    ids = long_sessions["s0"]
    answer = ask(session_id="s0", around_message_id=ids[12], window=12, max_tokens=1_000)
    shown = [message["id"] for message in answer["messages"]]
    first, last = ids.index(shown[0]), ids.index(shown[-1])
    assert shown == ids[first : last + 1]
    assert first <= 12 <= last
    assert (answer["messages_before"], answer["messages_after"]) == (first, 24 - last)
    assert 0 < len(shown) < 25


def test_short_messages_stay_whole(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "short question", LONG, "kettle", LONG, "short answer")
    (entry,) = ask("kettle", max_tokens=1_000)["results"]
    contents = [message["content"] for message in entry["messages"]]
    assert [contents[0], contents[2], contents[4]] == ["short question", "kettle", "short answer"]
    assert len(contents[1]) < len(LONG)


def test_what_was_left_out_is_counted(ask: Ask, long_sessions: dict[str, list[int]]) -> None:
    answer = ask(session_id="s0", max_tokens=1_000)
    assert len(answer["messages"]) + answer["left_out"] == 25
    assert answer["message"]
    (entry, *_) = ask("kettle", max_tokens=1_000)["results"]
    shown = sum(len(entry[name]) for name in ("bookend_start", "messages", "bookend_end"))
    assert shown + entry["left_out"] == 17


def test_long_arguments_of_tool_calls_are_cut(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "write it")
    arguments = json.dumps({"text": LONG + "kettle " + LONG})
    calls = [
        {"id": f"c{i}", "type": "function", "function": {"name": "write", "arguments": arguments}}
        for i in range(8)
    ]
    db.append_message("s1", "assistant", LONG, tool_calls=calls)
    answer = ask("kettle", session_id="s1", max_tokens=1_000)
    assert answer["tokens"]["estimated"] <= 1_000
    (_, message) = answer["messages"]
    assert message["truncated"] is True
    assert [call["id"] for call in message["tool_calls"]] == ["c0", "c1", "c2", "c3", "c4"]
    assert all("kettle" in call["function"]["arguments"] for call in message["tool_calls"])
    whole = ask(session_id="s1", max_tokens=50_000)["messages"][1]
    assert whole["tool_calls"] == calls


def test_tool_calls_that_are_not_strict_json(db: SessionDB, ask: Ask) -> None:
    talk(db, "s1", "compute")
    db.append_message("s1", "assistant", tool_calls=[{"value": float("nan")}, "odd", 7])
    answer = ask(session_id="s1")
    json.dumps(answer, allow_nan=False)
    assert answer["messages"][1]["tool_calls"] == [{"value": "NaN"}, "odd", 7]


def test_names_of_any_length_do_not_break_the_budget(db: SessionDB, ask: Ask) -> None:
    huge = '\x01"' * 5_000
    (message,) = talk(db, "s1", "kettle", source=huge, model=huge)
    db.append_message("s1", "tool", "kettle", tool_name=huge, tool_call_id=huge)
    db.append_message("s1", huge, "kettle")
    for question in (
        {},
        {"query": "kettle", "role_filter": "all"},
        {"session_id": "s1"},
        {"session_id": "s1", "around_message_id": message},
    ):
        answer = ask(**question, max_tokens=500)
        assert json_tokens(answer) <= 500


texts = st.text(max_size=300)


@given(st.lists(texts, min_size=1, max_size=6), st.integers(500, 900), st.data())
def test_any_text_stays_in_the_budget(contents: list[str], max_tokens: int, data: Any) -> None:
    with SessionDB(":memory:") as db:
        ids = talk(db, "s1", *["kettle " + content for content in contents])
        chosen = data.draw(st.sampled_from(ids))
        for question in (
            {"query": "kettle"},
            {"session_id": "s1"},
            {"session_id": "s1", "around_message_id": chosen},
        ):
            answer = session_search(db, **question, max_tokens=max_tokens)
            assert json_tokens(answer) <= max_tokens


# ── the parts ─────────────────────────────────────────────────────────────────────────────────


@given(
    st.lists(st.tuples(st.integers(0, 1_000), st.integers(1, 5)), max_size=10),
    st.integers(-10, 5_000),
)
def test_shares(wishes: list[tuple[int, int]], available: int) -> None:
    wanted, weights = [w for w, _ in wishes], [weight for _, weight in wishes]
    given_out = share_out(wanted, weights, available)
    assert all(0 <= got <= want for got, want in zip(given_out, wanted, strict=True))
    assert sum(given_out) <= max(available, 0)
    # Nothing is held back, but for what rounding leaves.
    assert sum(given_out) >= min(sum(wanted), available) - len(wanted)


def test_shares_by_weight() -> None:
    assert share_out([10, 1_000, 1_000], [1, 1, 3], 410) == [10, 100, 300]


marks = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30)), max_size=8)


@given(st.text(max_size=400), st.integers(-5, 420), marks)
def test_cutting(text: str, size: int, spans: list[tuple[int, int]]) -> None:
    places = sorted((start, start + length) for start, length in spans)
    assert len(cut(text, size, places)) <= max(size, 0) or cut(text, size) == text
    kept = cut_to_tokens(text, size, places)
    # The quotes may be a token of their own.
    assert json_tokens(kept) - 2 <= max(size, 0)


def test_a_cut_starts_a_quarter_before_the_match() -> None:
    text = "a" * 1_000 + "kettle" + "b" * 1_000
    kept = cut(text, 106, [(1_000, 1_006)])
    assert kept == "..." + "a" * 25 + "kettle" + "b" * 69 + "..."


def test_a_cut_prefers_the_place_with_most_matches() -> None:
    text = "kettle " + "x" * 500 + " blue kettle " + "y" * 500
    kept = cut(text, 60, [(0, 6), (508, 512), (513, 519)])
    assert "blue kettle" in kept


def test_a_cut_keeps_characters_whole() -> None:
    text = "e\u0301" * 50
    for size in range(10, 60):
        kept = cut(text, size, [(50, 52)]).strip(".")
        assert kept.startswith("e")
        assert kept.endswith("\u0301")
