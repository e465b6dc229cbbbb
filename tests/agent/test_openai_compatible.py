"""The client of endpoints, against a server with the protocol on a real socket."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hermes_sessions.agent.clients.chat_stream import REPLY_CUT_OFF
from hermes_sessions.agent.clients.endpoint_address import EndpointAddress
from hermes_sessions.agent.clients.endpoint_errors import (
    MAX_ATTEMPTS,
    parse_retry_after,
    retry_delay,
)
from hermes_sessions.agent.clients.openai_compatible import (
    ClockAndRandom,
    OpenAICompatibleClient,
    Timeouts,
)
from hermes_sessions.agent.clients.port import (
    Event,
    ModelClient,
    ModelError,
    ModelGarbled,
    ModelRefused,
    ModelUnavailable,
    ReasoningPiece,
    Reply,
    Request,
    RetryWait,
    TextPiece,
    ToolCall,
    Usage,
)
from hermes_sessions.errors import ConfigError
from hermes_sessions_testing.scripted_model import (
    Answer,
    Call,
    ScriptedModel,
    Thought,
    event,
    failure,
    raw,
    streamed,
    whole,
)

KEY = "sk-very-secret-1234"
HI = Request(messages=[{"role": "user", "content": "Hi"}], model="scripted-1")
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {}}}]


class Waits:
    """Time that passes only by waiting."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def wait(self, is_shut: threading.Event, seconds: float) -> bool:
        self.waited.append(seconds)
        return is_shut.is_set()

    def chance(self) -> ClockAndRandom:
        return ClockAndRandom(
            monotonic=lambda: sum(self.waited),
            now=lambda: 784111777.0,
            random=lambda: 1.0,
            wait=self.wait,
            new_id=lambda: "made",
        )


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as server:
        yield server


@pytest.fixture
def waits() -> Waits:
    return Waits()


Connect = Callable[..., OpenAICompatibleClient]


@pytest.fixture
def connect(model: ScriptedModel, waits: Waits) -> Iterator[Connect]:
    clients: list[OpenAICompatibleClient] = []

    def make(base_url: str | None = None, **options: Any) -> OpenAICompatibleClient:
        options = {"api_key": KEY, "model": "scripted-1", "chance": waits.chance(), **options}
        clients.append(OpenAICompatibleClient(base_url or model.base_url, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
        client.close()


def reply_of(client: ModelClient, request: Request = HI) -> Reply:
    *_, reply = client.stream(request)
    assert isinstance(reply, Reply)
    return reply


def error_of(client: ModelClient, request: Request = HI) -> ModelError:
    with pytest.raises(ModelError) as caught:
        list(client.stream(request))
    assert KEY not in str(caught.value)
    return caught.value


def test_everything_a_reply_can_hold(model: ScriptedModel, connect: Connect) -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 7}
    usage |= {"prompt_tokens_details": {"cached_tokens": 16}}  # type: ignore[dict-item]
    model.say(
        Thought("Hm. "),
        Thought("So.", name="reasoning"),
        "Größe",
        " 数",
        Call("look", {"at": "it"}, "a"),
        Call("find", "{broken", "b"),
        usage=usage,
    )
    events: list[Event] = list(connect().stream(HI))
    assert events == [
        ReasoningPiece("Hm. "),
        ReasoningPiece("So."),
        TextPiece("Größe"),
        TextPiece(" 数"),
        Reply(
            text="Größe 数",
            finish_reason="tool_calls",
            reasoning="Hm. So.",
            tool_calls=(ToolCall("a", "look", '{"at": "it"}'), ToolCall("b", "find", "{broken")),
            usage=Usage(20, 7, 16),
            model="scripted-1",
        ),
    ]


def test_what_is_sent(model: ScriptedModel, connect: Connect) -> None:
    model.say("1")
    model.say("2")
    client = connect()
    reply_of(client)
    messages = [{"role": "user", "content": "lone \ud800 and 数"}]
    reply_of(client, Request(messages, "other", TOOLS, max_tokens=5, temperature=0.5))
    first, second = model.requests
    assert first.body == {
        "model": "scripted-1",
        "messages": HI.messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert second.body["messages"] == [{"role": "user", "content": "lone ? and 数"}]
    assert second.body["model"] == "other"
    assert second.body["tools"] == TOOLS
    assert (second.body["max_tokens"], second.body["temperature"]) == (5, 0.5)


def test_without_a_key_none_is_sent(model: ScriptedModel, connect: Connect) -> None:
    model.say("1")
    reply_of(connect(api_key=None))
    assert "authorization" not in model.requests[0].headers


def test_an_answer_in_one_piece(model: ScriptedModel, connect: Connect) -> None:
    model.add(whole("Hello", usage={"prompt_tokens": 3}))
    assert list(connect().stream(HI)) == [
        TextPiece("Hello"),
        Reply("Hello", "stop", usage=Usage(3), model="scripted-1"),
    ]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_passing_failures_are_tried_again(
    model: ScriptedModel, connect: Connect, waits: Waits, status: int
) -> None:
    model.add(failure(status), failure(status))
    model.say("at last")
    assert reply_of(connect()).text == "at last"
    assert waits.waited == [0.5, 1.0]


def test_attempts_are_bounded(model: ScriptedModel, connect: Connect, waits: Waits) -> None:
    model.otherwise = failure(503, f"overloaded, {KEY}")
    error = error_of(connect())
    assert isinstance(error, ModelUnavailable)
    assert "(503). It says: overloaded, …" in str(error)
    assert len(model.requests) == MAX_ATTEMPTS
    assert waits.waited == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("asked", "seconds"), [("7", 7.0), ("0.25", 0.25), ("Sun, 06 Nov 1994 08:49:47 GMT", 10.0)]
)
def test_the_wait_that_an_endpoint_asks_for(
    model: ScriptedModel, connect: Connect, waits: Waits, asked: str, seconds: float
) -> None:
    model.add(failure(429, "slow down", retry_after=asked))
    model.say("now")
    assert reply_of(connect()).text == "now"
    assert waits.waited == [seconds]


def test_a_wait_beyond_the_bound_is_told_at_once(
    model: ScriptedModel, connect: Connect, waits: Waits
) -> None:
    model.add(failure(429, "slow down", retry_after="61"))
    error = error_of(connect())
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after == 61
    assert waits.waited == []
    assert len(model.requests) == 1


def test_no_quota_is_no_passing_failure(model: ScriptedModel, connect: Connect) -> None:
    model.add(failure(429, "You exceeded your current quota", code="insufficient_quota"))
    assert isinstance(error_of(connect()), ModelRefused)
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (failure(401, f"Incorrect API key provided: {KEY}"), "Set HERMES_API_KEY or model.api_key"),
        (failure(403, "not yours"), "model.api_key"),
        (failure(404, "no such model"), "model.default"),
        (failure(400, "bad request"), "It says: bad request"),
        (raw(b"<html>moved</html>", content_type="text/html", status=302), "another URL"),
    ],
)
def test_refusals_say_what_to_set(
    model: ScriptedModel, connect: Connect, answer: Answer, text: str
) -> None:
    model.add(answer)
    error = error_of(connect())
    assert isinstance(error, ModelRefused)
    assert not error.too_long
    assert text in str(error)
    assert len(model.requests) == 1


def test_too_long(model: ScriptedModel, connect: Connect) -> None:
    model.add(failure(400, "…", code="context_length_exceeded"))
    error = error_of(connect())
    assert isinstance(error, ModelRefused)
    assert error.too_long


@pytest.mark.parametrize(
    ("message", "absent", "present"),
    [
        ("Unknown parameter: 'stream_options'.", "stream_options", "stream"),
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "max_tokens",
            "max_completion_tokens",
        ),
        ("temperature does not support 0.5, only the default (1)", "temperature", "max_tokens"),
        ("gemma does not support tools", "tools", "stream"),
        ("Streaming is not supported with this model", "stream", "tools"),
    ],
)
def test_what_an_endpoint_does_not_know_is_left_out_from_then_on(
    model: ScriptedModel, connect: Connect, message: str, absent: str, present: str
) -> None:
    request = Request(HI.messages, "m", TOOLS, max_tokens=5, temperature=0.5)
    client = connect()
    model.add(
        failure(400, "x" * 400 + " " + message), whole("1") if absent == "stream" else streamed("1")
    )
    model.say("2")
    assert reply_of(client, request).text == "1"
    assert reply_of(client, request).text == "2"
    refused, *others = [sent.body for sent in model.requests]
    assert absent in refused
    assert len(others) == 2
    assert all(absent not in body and present in body for body in others)


def test_what_is_refused_again_and_again_ends(model: ScriptedModel, connect: Connect) -> None:
    model.otherwise = failure(400, "stream_options: no; stream: not supported")
    assert isinstance(error_of(connect()), ModelRefused)
    assert len(model.requests) == 3


SPOKEN = streamed("Hello", " there", usage={"prompt_tokens": 1})


@pytest.mark.parametrize("length", [0, 10, 150, 200])
def test_a_cut_before_the_first_piece_is_tried_again(
    model: ScriptedModel, connect: Connect, length: int
) -> None:
    model.add(SPOKEN.cut_after(length), SPOKEN)
    assert reply_of(connect()).text == "Hello there"
    assert len(model.requests) == 2


@pytest.mark.parametrize("length", [380, 450])
def test_a_cut_after_a_piece_is_told_and_never_tried_again(
    model: ScriptedModel, connect: Connect, length: int
) -> None:
    model.add(SPOKEN.cut_after(length), SPOKEN)
    events = connect().stream(HI)
    assert next(events) == TextPiece("Hello")
    with pytest.raises(ModelUnavailable, match="closed the connection"):
        list(events)
    assert len(model.requests) == 1


def test_a_cut_anywhere_is_an_error_or_a_whole_answer(
    model: ScriptedModel, connect: Connect
) -> None:
    client = connect()
    outcomes = []
    for length in range(0, 900, 37):
        model.otherwise = SPOKEN.cut_after(length)
        try:
            outcomes.append(reply_of(client).text)
        except ModelUnavailable as error:
            outcomes.append(str(error))
    assert set(outcomes) == {REPLY_CUT_OFF, "Hello there"}
    assert outcomes == sorted(outcomes, key=lambda text: text != REPLY_CUT_OFF)


def test_a_cut_among_tool_calls_is_tried_again(model: ScriptedModel, connect: Connect) -> None:
    answer = streamed(Call("look", {"at": "it"}))
    model.add(answer.cut_after(700), answer)
    assert reply_of(connect()).tool_calls == (ToolCall("call_1", "look", '{"at": "it"}'),)
    assert len(model.requests) == 2


def test_an_outage_amid_the_answer(model: ScriptedModel, connect: Connect) -> None:
    trouble = {"error": {"message": f"upstream died {KEY}", "code": 502}}
    model.add(streamed(trouble), streamed("Hi", trouble))
    events = connect().stream(HI)
    waiting = next(events)
    assert isinstance(waiting, RetryWait)
    assert (waiting.attempt, waiting.attempts) == (2, MAX_ATTEMPTS)
    assert "upstream died …" in waiting.reason, "and the key is not there"
    assert next(events) == TextPiece("Hi")
    with pytest.raises(ModelUnavailable, match="upstream died …"):
        next(events)
    with pytest.raises(StopIteration):
        next(events)


@pytest.mark.parametrize(
    "answer",
    [
        streamed(b"data: {malformed\n\n"),
        raw(b"<html>Welcome!</html>", content_type="text/html"),
        raw(b'{"hello": "world"}', content_type="application/json"),
        raw(b'{"choices": [', content_type="application/json"),
        raw(event({"choices": []}) + b"data: [DONE]\n\n"),
    ],
)
def test_garbled(model: ScriptedModel, connect: Connect, answer: Answer) -> None:
    model.add(answer)
    assert isinstance(error_of(connect()), ModelGarbled)
    assert len(model.requests) == 1


def test_a_slow_first_byte(model: ScriptedModel, connect: Connect) -> None:
    gate = model.gate()
    model.add(streamed("late").held_by(gate))
    model.otherwise = streamed("in time")
    assert reply_of(connect(patience=Timeouts(first_byte=0.3))).text == "in time"

    model.otherwise = streamed("late").held_by(gate)
    error = error_of(connect(patience=Timeouts(first_byte=0.01)))
    assert isinstance(error, ModelUnavailable)
    assert "model.first_byte_timeout" in str(error)


def test_silence_amid_the_answer(model: ScriptedModel, connect: Connect) -> None:
    gate = model.gate()
    model.otherwise = streamed("Hello", gate, " there")  # also if a busy machine is late with it
    events = connect(patience=Timeouts(first_byte=60, piece=0.1)).stream(HI)
    assert next(events) == TextPiece("Hello")
    with pytest.raises(ModelUnavailable, match=r"model\.piece_timeout"):
        next(events)


def test_a_patient_client_hears_a_slow_one_out(model: ScriptedModel, connect: Connect) -> None:
    gate = model.gate()
    model.say("Hello", gate, " there")
    events = connect(patience=Timeouts(first_byte=60, piece=60)).stream(HI)
    assert next(events) == TextPiece("Hello")
    gate.open()
    assert next(events) == TextPiece(" there")
    assert isinstance(next(events), Reply)
    with pytest.raises(StopIteration):
        next(events)


def test_no_server_listens(connect: Connect, waits: Waits) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        error = error_of(connect(f"http://localhost:{port}/v1"))
    assert isinstance(error, ModelUnavailable)
    assert f"Cannot reach localhost:{port}: connection failed" in str(error)
    assert "model.base_url" in str(error)
    assert len(waits.waited) == MAX_ATTEMPTS - 1


def test_something_else_listens(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            for _ in range(MAX_ATTEMPTS):
                connection, _ = server.accept()
                with connection:
                    connection.recv(100)
                    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        error = error_of(connect(f"http://127.0.0.1:{server.getsockname()[1]}/v1"))
        thread.join()
    assert isinstance(error, ModelUnavailable)
    assert "connection lost" in str(error)


def test_closing_the_iterator_closes_the_connection(model: ScriptedModel, connect: Connect) -> None:
    model.say("Hello", model.gate(), " there")
    events = connect().stream(HI)
    assert next(events) == TextPiece("Hello")
    events.close()
    events.close()
    model.wait_for_departure()
    assert list(events) == []


def test_an_iterator_that_is_closed_at_once_asks_nothing(
    model: ScriptedModel, connect: Connect
) -> None:
    client = connect()
    events = client.stream(HI)
    events.close()
    assert list(events) == []
    assert model.requests == []


@pytest.mark.parametrize("moment", ["before the first byte", "amid the answer"])
@pytest.mark.parametrize("whole_client", [False, True])
def test_another_thread_interrupts_one_that_waits_in_a_read(
    model: ScriptedModel, connect: Connect, moment: str, whole_client: bool
) -> None:
    gate = model.gate()
    if moment == "amid the answer":
        model.say("Hello", gate, " there")
    else:
        model.add(streamed("Hello").held_by(gate))
    client = connect()
    events = client.stream(HI)
    seen: list[Event] = []
    heard = threading.Event()

    def read() -> None:
        for piece in events:
            seen.append(piece)
            heard.set()

    reader = threading.Thread(target=read)
    reader.start()
    gate.wait_until_reached()
    if moment == "amid the answer":
        assert heard.wait(60)
    (client if whole_client else events).close()
    model.wait_for_departure()
    reader.join()
    assert seen == ([TextPiece("Hello")] if moment == "amid the answer" else [])


def test_another_thread_interrupts_one_that_waits_for_its_next_attempt(
    model: ScriptedModel, connect: Connect
) -> None:
    model.add(failure(429, retry_after="50"))
    waiting = threading.Event()

    def wait(is_shut: threading.Event, seconds: float) -> bool:
        waiting.set()
        return is_shut.wait(seconds)

    events = connect(chance=ClockAndRandom(wait=wait)).stream(HI)
    reader = threading.Thread(target=lambda: list(events))
    reader.start()
    assert waiting.wait(60)
    events.close()
    reader.join()
    assert len(model.requests) == 1


def test_ctrl_c_closes_the_connection(model: ScriptedModel, connect: Connect) -> None:
    model.add(failure(503))

    def wait(_is_shut: threading.Event, _seconds: float) -> bool:
        raise KeyboardInterrupt

    events = connect(chance=ClockAndRandom(wait=wait)).stream(HI)
    assert isinstance(next(events), RetryWait)
    with pytest.raises(KeyboardInterrupt):
        next(events)
    assert list(events) == []


def test_a_closed_client_answers_no_more(model: ScriptedModel, connect: Connect) -> None:
    client = connect()
    client.close()
    assert isinstance(error_of(client), ModelUnavailable)
    assert model.requests == []


def test_many_threads_share_a_client(model: ScriptedModel, connect: Connect) -> None:
    gate = model.gate()
    for _ in range(8):
        model.say("Hello", gate, " there")
    client = connect()
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda: texts.append(reply_of(client).text)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    model.wait_for_requests(8)
    gate.open()
    for thread in threads:
        thread.join()
    assert texts == ["Hello there"] * 8


def test_the_only_model_is_the_default(model: ScriptedModel, connect: Connect) -> None:
    client = connect(model=None)
    assert client.name.startswith("the model at 127.0.0.1:")
    assert client.default_model == "scripted-1"
    assert client.name.startswith("scripted-1 at 127.0.0.1:")
    assert client.models() == ["scripted-1"]
    with pytest.raises(ModelRefused, match=r"model\.base_url"):
        connect(model.base_url + "/v2", model=None).default_model  # noqa: B018


def test_what_cannot_be_json_is_not_sent(model: ScriptedModel, connect: Connect) -> None:
    error = error_of(connect(), Request([{"role": "user", "content": b"bytes"}], "m"))
    assert isinstance(error, ModelRefused)
    assert model.requests == []


@pytest.mark.parametrize(
    "address",
    ["", "api.example.com/v1", "ftp://x/v1", "http://", "http://h:99999/v1", "http://a b/", "h\0t"],
)
def test_invalid_urls(address: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        OpenAICompatibleClient(address)


@pytest.mark.parametrize("key", ["sk-hunter2\nX: y", "sk-hunter2 x", "sk-hunter2–"])
def test_invalid_keys_are_not_shown(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAICompatibleClient("http://localhost/v1", api_key=key)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["", "/", "/chat/completions", "/chat/completions/"])
def test_the_address_of_the_call_is_understood(
    model: ScriptedModel, connect: Connect, suffix: str
) -> None:
    model.say("1")
    assert reply_of(connect(model.base_url + suffix)).text == "1"


def test_a_certificate_that_is_not_trusted_is_not_tried_again() -> None:
    error = OSError("connecting failed")
    error.__cause__ = ssl.SSLCertVerificationError(1, "self-signed certificate")
    meaning = EndpointAddress("https://gpu.example/v1", KEY).unreachable(error)
    assert isinstance(meaning, ModelRefused)
    assert "SSL_CERT_FILE" in str(meaning)


def test_a_word_in_place_of_a_key_does_not_blot_out_messages(
    model: ScriptedModel, connect: Connect
) -> None:
    model.add(failure(400, "no key"))
    assert str(error_of(connect(api_key="no"))).endswith("It says: no key")


def test_names_hold_no_secrets(connect: Connect) -> None:
    client = connect(f"https://ada:{KEY}@[::1]:8443/v1?key={KEY}")
    assert client.name == "scripted-1 at [::1]:8443"


@pytest.mark.parametrize(
    ("attempt", "elapsed", "retry_after", "expected"),
    [
        (2, 0, None, (0.25, 0.5)),
        (5, 0, None, (2.0, 4.0)),
        (6, 0, None, None),
        (2, 59.9, None, None),
        (3, 0, 60.0, (60.0, 60.0)),
        (3, 1, 60.0, None),
        (3, 0, 0.0, (0.0, 0.0)),
    ],
)
def test_waits(
    attempt: int,
    elapsed: float,
    retry_after: float | None,
    expected: tuple[float, float] | None,
) -> None:
    found = [
        retry_delay(attempt, elapsed=elapsed, bound=60, retry_after=retry_after, random=chance)
        for chance in (lambda: 0.0, lambda: 1.0)
    ]
    assert found == ([None, None] if expected is None else list(expected))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "3", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:30 GMT"}, 0.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:38 -0000"}, 1.0),
    ],
)
def test_what_retry_after_says(headers: dict[str, str], expected: float | None) -> None:
    assert parse_retry_after(headers, 784111777.0) == expected
