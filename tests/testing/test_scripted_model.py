"""The scripted model, called with the standard library."""

import http.client
import json
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

from hermes_sessions_testing.scripted_model import (
    Call,
    ScriptedModel,
    Thought,
    failure,
    raw,
    streamed,
    whole,
)


def connection_to(model: ScriptedModel) -> http.client.HTTPConnection:
    address = urlsplit(model.base_url)
    return http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)


def ask(model: ScriptedModel, **body: Any) -> tuple[int, bytes]:
    connection = connection_to(model)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"X-Who": "me"})
    response = connection.getresponse()
    try:
        return response.status, response.read()
    finally:
        connection.close()


def chunks(content: bytes) -> list[Any]:
    texts = [part.removeprefix(b"data: ") for part in content.split(b"\n\n") if part]
    return [text.decode() if text == b"[DONE]" else json.loads(text) for text in texts]


def test_answers_come_in_order_and_requests_are_recorded() -> None:
    with ScriptedModel(streamed("one"), failure(503, "busy", retry_after="2")) as model:
        model.say("two")
        assert chunks(ask(model, number=1)[1])[1]["choices"][0]["delta"] == {"content": "one"}
        status, content = ask(model, number=2)
        assert (status, json.loads(content)["error"]["message"]) == (503, "busy")
        assert chunks(ask(model, number=3)[1])[1]["choices"][0]["delta"] == {"content": "two"}
        assert ask(model)[0] == 400
        assert [request.body.get("number") for request in model.requests] == [1, 2, 3, None]
        assert model.requests[0].headers["x-who"] == "me"
        model.wait_for_requests(4)
        model.close()


def test_what_a_stream_holds() -> None:
    answer = streamed(Thought("hm"), "text", Call("f", {"x": 1}), usage={"prompt_tokens": 3})
    with ScriptedModel(answer, answer) as model:
        seen = chunks(ask(model, stream_options={"include_usage": True})[1])
        assert seen[-1] == "[DONE]"
        assert seen[-2]["usage"] == {"prompt_tokens": 3}
        assert seen[-3]["choices"][0]["finish_reason"] == "tool_calls"
        deltas = [chunk["choices"][0]["delta"] for chunk in seen[:-3]]
        assert deltas[1:3] == [{"reasoning_content": "hm"}, {"content": "text"}]
        fragments = [delta["tool_calls"][0]["function"] for delta in deltas[3:]]
        assert fragments[0]["name"] == "f"
        assert json.loads("".join(part["arguments"] for part in fragments)) == {"x": 1}
        # Usage comes to those who ask for it.
        assert all("usage" not in chunk for chunk in chunks(ask(model)[1])[:-1])


def test_other_shapes() -> None:
    with ScriptedModel(whole("all"), raw(b"<html>", content_type="text/html")) as model:
        assert json.loads(ask(model)[1])["choices"][0]["message"]["content"] == "all"
        assert ask(model) == (200, b"<html>")
        connection = connection_to(model)
        connection.request("GET", "/v1/models")
        assert json.loads(connection.getresponse().read())["data"][0]["id"] == "scripted-1"
        connection.request("GET", "/elsewhere")
        assert connection.getresponse().status == 404
        connection.close()


@pytest.mark.parametrize("length", [0, 1, 300])
def test_a_cut_ends_the_connection_amid_the_answer(length: int) -> None:
    with ScriptedModel(streamed("Hello", " there").cut_after(length)) as model:
        with pytest.raises(http.client.IncompleteRead) as caught:
            ask(model)
        assert len(caught.value.partial) == length


def test_gates() -> None:
    with ScriptedModel() as model:
        gate = model.gate()
        model.say("Hello", gate, " there")
        results: list[tuple[int, bytes]] = []
        asking = threading.Thread(target=lambda: results.append(ask(model)))
        asking.start()
        gate.wait_until_reached()
        assert results == []
        gate.open()
        asking.join()
        assert b" there" in results[0][1]

        held = model.gate()
        model.add(streamed("late").held_by(held))
        connection = connection_to(model)
        connection.request("POST", "/v1/chat/completions", "{}")
        held.wait_until_reached()
        connection.close()
        model.wait_for_departure()


def test_closing_ends_what_waits_at_a_gate() -> None:
    model = ScriptedModel()
    gate = model.gate()
    model.say("Hello", gate)
    failures: list[Exception] = []

    def listen() -> None:
        try:
            ask(model)
        except (http.client.HTTPException, OSError) as error:
            failures.append(error)

    asking = threading.Thread(target=listen)
    asking.start()
    gate.wait_until_reached()
    model.close()
    asking.join()
    assert len(failures) == 1
