"""Messages by our own API: stored first, answered with a receipt, the reply, or a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from hermes_sessions_testing.scripted_model import Call, Thought, failure, streamed
from tests.gateway.platforms.api.harness import ApiHarness


def post(client: httpx.Client, text: str, where: str = "walks", **more: Any) -> httpx.Response:
    query = more.pop("query", "")
    headers = more.pop("headers", {})
    return client.post(
        f"/v1/conversations/{where}/messages{query}", json={"text": text, **more}, headers=headers
    )


def events_of(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of a stream, as the protocol has them."""
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def texts_of(client: httpx.Client, where: str = "walks", **headers: str) -> list[str]:
    answer = client.get(f"/v1/conversations/{where}/messages", headers=headers)
    assert answer.status_code == 200, answer.text
    return [message["content"] for message in answer.json()["data"]]


def test_a_message_is_stored_and_answered_later(harness: ApiHarness, client: httpx.Client) -> None:
    gate = harness.model.gate()
    harness.script.append(streamed("Hello").held_by(gate))
    answer = post(client, "Hi", id="k1")
    assert answer.status_code == 202
    receipt = answer.json()
    assert (receipt["status"], receipt["waiting"], receipt["conversation"]) == (
        "stored",
        1,
        "walks",
    )
    assert answer.headers["X-Hermes-Session-Id"] == "walks"
    gate.open()
    # The same again waits for the end of the first.
    post(client, "Hi", query="?wait", id="k1")
    assert texts_of(client) == ["Hi", "Hello"]


def test_a_reply_can_be_waited_for(client: httpx.Client) -> None:
    answer = post(client, "Hi", query="?wait=true")
    assert answer.status_code == 200
    assert (answer.json()["outcome"], answer.json()["reply"]) == ("completed", "You said: Hi")
    assert texts_of(client) == ["Hi", "You said: Hi"]


def test_half_a_pair_is_told_as_it_was_said(client: httpx.Client) -> None:
    """JSON can say what UTF-8 cannot."""
    path, body = "/v1/conversations/walks/messages?wait", b'{"text": "half \\ud800"}'
    assert client.post(path, content=body).status_code == 200
    assert texts_of(client)[0] == "half \ud800"
    found = post(client, "/search half", query="?wait")
    assert found.status_code == 200
    assert "\ud800" in found.json()["reply"]


def test_what_happens_is_streamed(harness: ApiHarness, client: httpx.Client) -> None:
    harness.script += [
        streamed(Thought("Hm."), "Let me look.", Call("session_search", {"query": "x"})),
        streamed("Nothing."),
    ]
    with client.stream(
        "POST", "/v1/conversations/walks/messages?stream=true", json={"text": "Hi"}
    ) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        events = list(events_of(answer.iter_lines()))
    assert [name for name, _ in events] == [
        "receipt",
        "reasoning",
        "text",
        "tool_started",
        "tool_finished",
        "text",
        "ended",
    ]
    assert events[0][1]["status"] == "stored"
    assert events[3][1] == {"tool": "session_search"}
    assert events[-1][1] == {"text": "Nothing.", "outcome": "completed"}


def test_a_failure_ends_the_stream_in_words(harness: ApiHarness, client: httpx.Client) -> None:
    harness.script.append(failure(400, "no such model"))
    with client.stream(
        "POST", "/v1/conversations/walks/messages?stream=true", json={"text": "Hi"}
    ) as answer:
        events = list(events_of(answer.iter_lines()))
    assert events[-1][0] == "ended"
    assert events[-1][1]["outcome"] == "failed"
    assert "no such model" in events[-1][1]["text"]


@pytest.mark.parametrize("by", ["header", "body"])
def test_a_message_that_is_sent_again_is_answered_once(
    harness: ApiHarness, client: httpx.Client, by: str
) -> None:
    given = {"headers": {"Idempotency-Key": "k1"}} if by == "header" else {"id": "k1"}
    first = post(client, "Hi", query="?wait", **given)
    second = post(client, "Hi", query="?wait", **given)
    assert (first.json()["status"], second.json()["status"]) == ("stored", "duplicate")
    assert second.json()["reply"] == "You said: Hi"
    assert len(harness.prompts()) == 1
    # In another conversation, the same id is another message.
    assert post(client, "Hi", "runs", query="?wait", **given).json()["status"] == "stored"


def test_a_reply_of_yesterday_is_found(harness: ApiHarness, client: httpx.Client) -> None:
    """The gateway that has started since then has heard nothing of it."""
    post(client, "Hi", query="?wait", id="k1")
    assert harness.running is not None
    harness.running.stop("restart")
    harness.start()
    with harness.client() as again:
        answer = post(again, "Hi", query="?wait", id="k1").json()
    assert (answer["status"], answer["reply"]) == ("duplicate", "You said: Hi")
    assert len(harness.prompts()) == 1


def test_a_client_that_leaves_loses_nothing(harness: ApiHarness, client: httpx.Client) -> None:
    gate = harness.model.gate()
    harness.script.append(streamed("Hello", gate, " there"))
    with client.stream(
        "POST", "/v1/conversations/walks/messages?stream=true", json={"text": "Hi", "id": "k1"}
    ) as answer:
        events = events_of(answer.iter_lines())
        assert [next(events)[0], next(events)[0]] == ["receipt", "text"]
    gate.open()
    assert post(client, "Hi", query="?wait", id="k1").json()["reply"] == "Hello there"
    assert texts_of(client) == ["Hi", "Hello there"]


def test_an_answer_that_is_stopped(harness: ApiHarness, client: httpx.Client) -> None:
    """Whoever waits for it hears that, and does not ask again."""
    gate = harness.model.gate()
    harness.script.append(streamed("Hello", gate, " there"))
    with client.stream(
        "POST",
        "/v1/chat/completions",
        json={"messages": [{"role": "user", "content": "Hi"}], "stream": True},
        headers={"X-Hermes-Session-Id": "walks"},
    ) as answer:
        lines = answer.iter_lines()
        while "Hello" not in next(lines):
            pass
        with harness.client() as other:
            assert post(other, "/stop", query="?wait").json()["status"] == "answered"
        rest = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert rest[-1] == "[DONE]"
    assert json.loads(rest[-2])["error"]["code"] == "interrupted"


def test_commands_are_carried_out(client: httpx.Client) -> None:
    post(client, "Hi", query="?wait")
    assert texts_of(client) == ["Hi", "You said: Hi"]
    answer = post(client, "/new", query="?wait").json()
    assert answer["status"] == "answered"
    assert answer["reply"]
    post(client, "Again", query="?wait")
    assert texts_of(client) == ["Again", "You said: Again"]
    assert len(client.get("/v1/sessions").json()["data"]) == 2


def test_sessions_are_listed_page_by_page(client: httpx.Client) -> None:
    for number in range(5):
        post(client, f"Hi {number}", f"talk-{number}", query="?wait")
    seen, offset = [], 0
    while offset is not None:
        page = client.get("/v1/sessions", params={"limit": 2, "offset": offset}).json()
        seen += page["data"]
        offset = page["next_offset"]
        assert page["has_more"] is (offset is not None)
    assert [session["preview"] for session in seen] == [f"Hi {n}" for n in (4, 3, 2, 1, 0)]
    messages = client.get(f"/v1/sessions/{seen[0]['id']}/messages", params={"limit": 1}).json()
    assert [message["content"] for message in messages["data"]] == ["Hi 4"]
    rest = client.get(f"/v1/sessions/{seen[0]['id']}/messages", params={"offset": 1}).json()
    assert [message["role"] for message in rest["data"]] == ["assistant"]


def test_whoever_waits_hears_that_the_gateway_stops(
    harness: ApiHarness, client: httpx.Client
) -> None:
    """And is answered after it has started again, though the message is not taken twice."""
    gate = harness.model.gate()
    harness.script.append(streamed("Hello", gate, " there"))
    with client.stream(
        "POST", "/v1/conversations/walks/messages?stream=true", json={"text": "Hi", "id": "k1"}
    ) as answer:
        events = events_of(answer.iter_lines())
        assert [next(events)[0], next(events)[0]] == ["receipt", "text"]
        assert harness.running is not None
        harness.running.stop("restart")
        ((name, told),) = events
    assert (name, told["error"]["code"]) == ("error", "restarting")
    harness.start()
    with harness.client() as again:
        answer = post(again, "Hi", query="?wait", id="k1")
        assert (answer.json()["status"], answer.json()["outcome"]) == ("duplicate", "completed")
        assert texts_of(again).count("Hi") == 1


def test_a_limit_of_messages(harness: ApiHarness) -> None:
    harness.running.stop()  # type: ignore[union-attr] - it runs
    harness.config["platforms"]["api"]["messages_per_minute"] = 1
    harness.start()
    with harness.client() as client:
        assert post(client, "One").status_code == 202
        refused = post(client, "Two")
        assert refused.status_code == 429
        assert "try again in" in refused.json()["error"]["message"]
        # Everybody has a limit of their own.
        assert post(client, "Three", user="bert").status_code == 202


def test_a_gateway_that_begins_no_more_turns_is_not_ready(
    harness: ApiHarness, client: httpx.Client
) -> None:
    """It still answers calls while turns finish: whoever chooses among several takes another."""
    assert harness.running is not None
    assert harness.running.gateway is not None
    harness.running.gateway.pool.begin_drain()
    ready = client.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["problems"] == {"gateway": "stops"}
    assert client.get("/healthz").status_code == 200


def test_health_readiness_and_metrics(harness: ApiHarness, client: httpx.Client) -> None:
    with harness.client(token=None) as anybody:
        health, ready = anybody.get("/healthz").json(), anybody.get("/readyz").json()
        assert health.pop("heartbeat_age") >= 0
        assert health == {"status": "ok", "store": "healthy"}
        assert ready.pop("heartbeat_age") >= 0
        assert ready == {"status": "ready", "store": "healthy", "problems": {}}
        assert anybody.get("/metrics").status_code == 401
    post(client, "Hi, secret words", query="?wait=true")
    metrics = client.get("/metrics")
    assert metrics.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    for line in (
        'hermes_gateway_messages_total{platform="api_server",status="stored"} 1.0',
        'hermes_gateway_turns_total{outcome="completed",platform="api_server"} 1.0',
        'hermes_gateway_connected{platform="api_server"} 1.0',
        "hermes_gateway_spool_waiting 0.0",
    ):
        assert line in metrics.text
    assert "secret" not in metrics.text
