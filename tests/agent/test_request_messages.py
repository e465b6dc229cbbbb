"""Requests are valid for any history."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.agent.request_messages import NO_RESULT, OPENING, build_request_messages


def call(call_id: str, arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def test_a_plain_conversation() -> None:
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "finish_reason": "stop", "reasoning": "hm"},
    ]
    assert build_request_messages(history, "Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]


def test_questions_in_a_row_become_one() -> None:
    history = [{"role": "user", "content": text} for text in ("a", "b")]
    assert build_request_messages(history) == [{"role": "user", "content": "a\n\nb"}]
    image = {"type": "image_url", "image_url": {"url": "x"}}
    history = [{"role": "user", "content": "a"}, {"role": "user", "content": [image]}]
    assert build_request_messages(history) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, image]}
    ]


def test_a_call_without_a_result_gets_one() -> None:
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [call("1"), call("2")]},
        {"role": "tool", "content": "r2", "tool_call_id": "2"},
        {"role": "user", "content": "b"},
    ]
    sent = build_request_messages(history)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert [m["content"] for m in sent if m["role"] == "tool"] == ["r2", NO_RESULT]


def test_a_result_without_a_call_is_left_out() -> None:
    history = [
        {"role": "user", "content": "a"},
        {"role": "tool", "content": "lost", "tool_call_id": "1"},
        {"role": "assistant", "content": None, "tool_calls": [call("2")]},
        {"role": "tool", "content": "r", "tool_call_id": "2"},
        {"role": "tool", "content": "again", "tool_call_id": "2"},
    ]
    assert [m["content"] for m in build_request_messages(history)] == ["a", None, "r"]


def test_a_history_that_begins_with_an_answer() -> None:
    sent = build_request_messages([{"role": "assistant", "content": "b"}])
    assert [message["content"] for message in sent] == [OPENING, "b"]


def test_arguments_are_always_an_object() -> None:
    history = [
        {"role": "user", "content": "a"},
        {
            "role": "assistant",
            "content": "x",
            "tool_calls": [call("1", "{oops"), call("2", {"a": 1}), call("3", ""), call("4", "[]")],
        },
    ]
    calls = build_request_messages(history)[1]["tool_calls"]
    assert [c["function"]["arguments"] for c in calls] == ["{}", '{"a": 1}', "{}", "{}"]


contents = st.one_of(st.none(), st.text(max_size=5), st.just([]), st.just([{"type": "text"}]))
calls = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.lists(
        st.one_of(
            st.builds(call, st.sampled_from(["1", "2", "3", ""]), st.text(max_size=4)),
            st.just({}),
            st.just("x"),
        ),
        max_size=3,
    ),
)
histories = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "system", "session_meta"])},
        optional={
            "content": contents,
            "tool_calls": calls,
            "tool_call_id": st.sampled_from(["1", "2", "3", "9"]),
        },
    ),
    max_size=12,
)


@given(histories)
def test_any_history(history: list[dict[str, Any]]) -> None:
    waiting: set[str] = set()
    before = None
    for message in build_request_messages(history):
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
            assert message["content"] is not None
        else:
            assert not waiting
            assert role in ("user", "assistant")
            assert role == "user" or before is not None
            assert message["content"] or message.get("tool_calls")
        if role == "user":
            assert before != "user"
        for made in message.get("tool_calls", ()):
            assert isinstance(json.loads(made["function"]["arguments"]), dict)
            assert made["id"] not in waiting
            waiting.add(made["id"])
        before = role
    assert not waiting
