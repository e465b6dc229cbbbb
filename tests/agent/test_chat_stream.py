"""Answers of endpoints as events: all known shapes, cut at any byte."""

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.agent.clients import chat_stream
from hermes_sessions.agent.clients.chat_stream import EventSource, reply_events, usage_of
from hermes_sessions.agent.clients.endpoint_errors import error_from_response
from hermes_sessions.agent.clients.port import (
    Event,
    ModelError,
    ModelGarbled,
    ModelRefused,
    ModelUnavailable,
    ReasoningPiece,
    Reply,
    TextPiece,
    ToolCall,
    Usage,
)


def events(portions: Iterable[bytes]) -> list[Event]:
    numbers = itertools.count(1)
    return list(reply_events(portions, lambda: f"made-{next(numbers)}"))


def outcome(portions: Iterable[bytes]) -> tuple[list[Event], type[ModelError] | None, str]:
    """The events before the end, and how it ended."""
    seen: list[Event] = []
    try:
        for event in reply_events(portions, lambda: "made"):
            seen.append(event)  # noqa: PERF402 - what came before an error counts
    except ModelError as error:
        return seen, type(error), str(error)
    return seen, None, ""


def sse(*chunks: dict[str, Any] | str) -> bytes:
    texts = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def delta(finish: str | None = None, **part: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": part, "finish_reason": finish}]}


def call(index: int | None, name: str | None, arguments: Any, call_id: str | None = None) -> Any:
    fragment: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        fragment["index"] = index
    if call_id is not None:
        fragment["id"] = call_id
    return fragment


def calls_of(*fragments: Any) -> tuple[ToolCall, ...]:
    chunks = [delta(tool_calls=[fragment]) for fragment in fragments]
    reply = events([sse(*chunks, delta("tool_calls"), "[DONE]")])[-1]
    assert isinstance(reply, Reply)
    return reply.tool_calls


USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 16},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
EVERYTHING = sse(
    delta(role="assistant", content=""),
    delta(reasoning_content="Hm. "),
    delta(reasoning="So: "),
    delta(content="Größe \u2028 数"),
    delta(content=" <think>kept</think>"),
    delta(tool_calls=[call(0, "look", "", "a"), call(1, "find", '{"q":', "b")]),
    delta(tool_calls=[call(1, None, '"x"}'), call(0, None, "{}")]),
    delta("tool_calls"),
    {"choices": [], "usage": USAGE},
    "[DONE]",
)
EXPECTED = [
    ReasoningPiece("Hm. "),
    ReasoningPiece("So: "),
    TextPiece("Größe \u2028 数"),
    TextPiece(" <think>kept</think>"),
    Reply(
        text="Größe \u2028 数 <think>kept</think>",
        finish_reason="tool_calls",
        reasoning="Hm. So: ",
        tool_calls=(ToolCall("a", "look", "{}"), ToolCall("b", "find", '{"q":"x"}')),
        usage=Usage(20, 7, 16, None, 3),
        model="m",
    ),
]
WHOLE = json.dumps(
    {
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {
                    "content": "Hello",
                    "reasoning": "Hm.",
                    "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
                },
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    }
).encode()


def cuts(body: bytes) -> st.SearchStrategy[list[bytes]]:
    """Every way to send a body in portions, empty ones too."""
    places = st.lists(st.integers(0, len(body)), max_size=30).map(sorted)
    return places.map(lambda at: [body[a:b] for a, b in itertools.pairwise([0, *at, len(body)])])


@given(st.sampled_from([b"\n", b"\r", b"\r\n"]), st.booleans(), st.data())
def test_any_cut_of_the_bytes_gives_the_same_events(
    ending: bytes, mark: bool, data: st.DataObject
) -> None:
    body = (b"\xef\xbb\xbf" if mark else b"") + EVERYTHING.replace(b"\n", ending)
    assert events(data.draw(cuts(body))) == EXPECTED


def test_byte_by_byte() -> None:
    assert events([bytes([byte]) for byte in EVERYTHING]) == EXPECTED
    assert events([bytes([byte]) for byte in WHOLE]) == events([WHOLE])


@given(st.integers(0, len(EVERYTHING) - 1), st.data())
def test_bytes_that_end_early_give_the_beginning_and_never_nonsense(
    length: int, data: st.DataObject
) -> None:
    body = EVERYTHING[:length]
    seen, error, _ = outcome([body])
    assert outcome(data.draw(cuts(body)))[:2] == (seen, error)
    if error is None:
        # Only the last usage or the last mark is missing.
        reply = seen[-1]
        assert isinstance(reply, Reply)
        assert reply.finish_reason == "tool_calls"
        assert seen[:-1] == EXPECTED[:-1]
    else:
        assert error is ModelUnavailable
        assert seen == EXPECTED[: len(seen)]


@given(st.binary(max_size=300), st.data())
def test_whatever_is_sent_ends_in_a_reply_or_an_error_of_the_port(
    body: bytes, data: st.DataObject
) -> None:
    assert outcome([body])[:2] == outcome(data.draw(cuts(body)))[:2]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 500) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "choices delta message content text thinking reasoning tool_calls function name "
                "arguments index id usage prompt_tokens prompt_tokens_details cached_tokens error "
                "code type finish_reason model x_groq refusal metadata raw".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON_VALUES, min_size=1, max_size=3))
def test_chunks_of_any_shape_end_in_a_reply_or_an_error_of_the_port(values: list[Any]) -> None:
    outcome([sse(*map(json.dumps, values), "[DONE]")])
    outcome([json.dumps(values[0]).encode()])
    error_from_response(400, json.dumps(values[0]))


def test_an_answer_in_one_piece() -> None:
    assert events([b"  \n", WHOLE]) == [
        ReasoningPiece("Hm."),
        TextPiece("Hello"),
        Reply(
            text="Hello",
            finish_reason="stop",
            reasoning="Hm.",
            tool_calls=(ToolCall("a", "f", "{}"),),
            usage=Usage(1, 2),
            model="m",
        ),
    ]


@pytest.mark.parametrize(
    "body",
    [
        sse(delta(content="Hi"), delta("stop"), "[DONE]"),
        sse(delta(content="Hi"), delta("stop")),
        sse(delta(content="Hi"), "[DONE]"),
        sse(delta(content="Hi"), "[DONE]").rstrip(),
        b": waiting\n\n" + sse(delta(content="Hi")) + b"event: x\nid: 3\nretry: 1\n\ndata:[DONE]",
        sse({"choices": []}, delta(content="Hi"), delta("stop"), "[DONE]", "this is not read"),
        sse(delta(content=[{"type": "text", "text": "Hi"}]), "[DONE]"),
        sse({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}),
        sse(delta(content="Hi"), {"choices": [{"index": 1, "delta": {"content": "no"}}]}, "[DONE]"),
        b'data: {"choices":\ndata: [{"delta": {"content": "Hi"}}]}\n\ndata: [DONE]\n\n',
    ],
)
def test_ways_to_say_hi(body: bytes) -> None:
    piece, reply = events([body])
    assert piece == TextPiece("Hi")
    assert isinstance(reply, Reply)
    assert reply.text == "Hi"


def test_thoughts_in_parts_of_the_content() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    body = sse(delta(content=[thinking]), delta(content=[{"text": "Hi"}]), "[DONE]")
    assert events([body])[:2] == [ReasoningPiece("Hm."), TextPiece("Hi")]


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        (
            [call(0, "f", "", "a"), call(0, None, '{"x"'), call(0, None, ": 1}")],
            [("a", "f", '{"x": 1}')],
        ),
        (
            [call(1, "g", "{", "b"), call(0, "f", "{", "a"), call(1, None, "}"), call(0, "", "}")],
            [("b", "g", "{}"), ("a", "f", "{}")],
        ),
        # Whole calls: without numbers, all with the number 0, without ids.
        ([call(None, "f", "{}", "a"), call(None, "g", "{}", "b")], None),
        ([call(0, "f", "{}", "a"), call(0, "g", "{}", "b")], None),
        (
            [call(0, "f", "{}"), call(0, "g", "{}")],
            [("made-1", "f", "{}"), ("made-2", "g", "{}")],
        ),
        (
            [call(None, "f", {"x": 1}), call(None, "f", {"x": 2})],
            [("made-1", "f", '{"x": 1}'), ("made-2", "f", '{"x": 2}')],
        ),
        # Fragments without numbers, with the id repeated or not.
        ([call(None, "f", "{", "a"), call(None, None, "}")], [("a", "f", "{}")]),
        (
            [call(None, "f", "{", "a"), call(None, "g", "{", "b"), call(None, None, "}", "a"),
             call(None, None, "}", "b")],
            [("a", "f", "{}"), ("b", "g", "{}")],
        ),
        # Name and id in every fragment.
        (
            [call(0, "f", "{", "a"), call(0, "f", "}", "a"), call(0, "f", "", "a")],
            [("a", "f", "{}")],
        ),
        ([call(0, "f", "{"), call(0, "f", "}"), call(0, "f", "")], [("made-1", "f", "{}")]),
        # A name in pieces; no arguments at all; two calls that claim one id; nothing at all.
        (
            [call(0, "get_", "", "a"), call(0, "it", ""), call(0, None, "{}")],
            [("a", "get_it", "{}")],
        ),
        ([call(0, "f", None, "a")], [("a", "f", "{}")]),
        (
            [call(0, "f", "{}", "a"), call(1, "g", "{}", "a")],
            [("a", "f", "{}"), ("made-1", "g", "{}")],
        ),
        ([call(0, None, None)], []),
        # What the model wrote stays as it is, although it is not JSON.
        ([call(0, "f", '{"x": ', "a")], [("a", "f", '{"x": ')]),
    ],
)  # fmt: skip
def test_tool_calls_out_of_their_fragments(
    fragments: list[Any], expected: list[tuple[str, str, str]] | None
) -> None:
    expected = [("a", "f", "{}"), ("b", "g", "{}")] if expected is None else expected
    assert calls_of(*fragments) == tuple(ToolCall(*parts) for parts in expected)


def test_a_call_of_nothing_is_garbled() -> None:
    with pytest.raises(ModelGarbled, match="without a name"):
        calls_of(call(0, None, "{}", "a"))


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (USAGE, Usage(20, 7, 16, None, 3)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, Usage(9, None, 4)),
        (
            {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 0,
             "cache_creation_input_tokens": 5},
            Usage(9, 1, 0, 5),
        ),
        ({"prompt_tokens": "9", "completion_tokens": True, "prompt_tokens_details": None}, Usage()),
        ({"prompt_tokens": -1}, Usage()),
    ],
)  # fmt: skip
def test_tokens_by_any_name(usage: dict[str, Any], expected: Usage) -> None:
    assert usage_of(usage) == expected


def test_usage_beside_the_pieces() -> None:
    body = sse(
        {**delta(content="Hi"), "usage": {"prompt_tokens": 1}},
        {**delta("stop"), "usage": {"prompt_tokens": 2}, "x_groq": {"usage": {}}},
        "[DONE]",
    )
    reply = events([body])[-1]
    assert isinstance(reply, Reply)
    assert reply.usage == Usage(2)


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (b"", ModelUnavailable, "closed the connection"),
        (b"dat", ModelUnavailable, "closed the connection"),
        (sse(delta(content="Hi")), ModelUnavailable, "closed the connection"),
        (sse("[DONE]"), ModelGarbled, "without a reply"),
        (sse("{oops", "[DONE]"), ModelGarbled, "not JSON: {oops"),
        (sse("[1]", "[DONE]"), ModelGarbled, "not a reply"),
        (sse(delta(content="Hi"), delta("stop"), "{oops"), ModelGarbled, "not JSON"),
        (b"<html><body>Welcome</body></html>", ModelGarbled, "ends in /v1"),
        (b'{"object": "list", "data": []}', ModelGarbled, "without a reply"),
        (b'{"choices": []}', ModelGarbled, "without a reply"),
        (b'{"choices": [', ModelGarbled, "not JSON"),
        (b"[" * 100_000, ModelGarbled, "not JSON"),
        (sse({"error": {"message": "Overloaded", "type": "overloaded_error"}}), ModelUnavailable,
         "Overloaded"),
        (sse({"error": {"message": "Rate limited", "code": 429}}), ModelUnavailable, "429"),
        (sse({"error": "something broke"}), ModelUnavailable, "something broke"),
        (sse({"error": {"message": "no such thing", "type": "invalid_request_error"}}),
         ModelRefused, "no such thing"),
        (sse({"choices": [{"error": {"code": 502, "message": "gone"}}]}), ModelUnavailable, "gone"),
        (b'{"error": {"message": "bad key", "code": 401}}', ModelRefused, "HERMES_API_KEY"),
    ],
)  # fmt: skip
def test_answers_that_are_not_replies(body: bytes, error: type[ModelError], text: str) -> None:
    _, found, message = outcome([body])
    assert found is error
    assert text in message


def test_an_endless_line_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_stream, "MAX_EVENT_BYTES", 100)
    source = EventSource()
    assert source.feed(b"data: " + b"x" * 60) == []
    with pytest.raises(ModelGarbled, match="an event of more than"):
        source.feed(b"x" * 60)
    source = EventSource()
    with pytest.raises(ModelGarbled, match="an event of more than"):
        source.feed(b"data: xxxxxxxxxx\n" * 20)


TOO_LONG = [
    (400, {"error": {"code": "context_length_exceeded", "message": "…"}}),
    (400, {"error": {"message": "This model's maximum context length is 8192 tokens. However…"}}),
    (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
    (400, {"message": "Input is too long for requested model."}),
    (400, [{"error": {"code": 400, "message": "The input token count (1200000) exceeds the maximum "
            "number of tokens allowed (1048576)."}}]),
    (400, {"error": {"type": "exceed_context_size_error", "message": "request (3031 tokens) "
            "exceeds the available context size (2048 tokens), try increasing it"}}),
    (400, {"error": "The number of tokens to keep from the initial prompt is greater than the "
            "context length."}),
    (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens. "
            "Please reduce the length of the messages."}),
    (400, {"error": {"message": "This model's maximum prompt length is 131072 but the request "
            "contains 537812 tokens."}}),
    (400, {"error": {"message": "Invalid request: Your request exceeded model token limit: 8192"}}),
    (422, {"detail": "Input validation error: `inputs` tokens + `max_new_tokens` exceeds the "
            "limit"}),
    (500, {"error": {"message": "the request exceeds the available context size"}}),
    (413, {"error": {"message": "Request too large"}}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body"), TOO_LONG)
def test_too_long_is_recognised_for_all_servers(status: int, body: Any) -> None:
    failure = error_from_response(status, json.dumps(body))
    assert isinstance(failure, ModelRefused)
    assert failure.too_long


@pytest.mark.parametrize(
    ("status", "body", "error", "text"),
    [
        (400, {"error": {"message": "tools[0].name is too long"}}, ModelRefused, "too long"),
        (401, {"error": {"message": "context length of the key"}}, ModelRefused, "model.api_key"),
        (402, "Payment required", ModelRefused, "requires payment"),
        (403, "", ModelRefused, "model.api_key"),
        (404, {"error": {"message": "no model x"}}, ModelRefused, "model.default"),
        (405, "", ModelRefused, "model.base_url"),
        (308, "", ModelRefused, "model.base_url"),
        (418, b"\xff\x00", ModelRefused, "418"),
        (429, {"error": {"message": "Too many tokens per minute"}}, ModelUnavailable, "429"),
        (
            429,
            {"error": {"code": "insufficient_quota", "message": "…"}},
            ModelRefused,
            "requires payment",
        ),
        (503, "<html><h1>Bad gateway</h1></html>", ModelUnavailable, "cannot answer now (503)."),
        (529, {"type": "error", "error": {"type": "overloaded_error"}}, ModelUnavailable, "529"),
    ],
)
def test_other_failures_say_what_to_do(
    status: int, body: Any, error: type[ModelError], text: str
) -> None:
    failure = error_from_response(
        status, body if isinstance(body, str | bytes) else json.dumps(body)
    )
    assert type(failure) is error
    assert text in str(failure)
    assert not getattr(failure, "too_long", False)
