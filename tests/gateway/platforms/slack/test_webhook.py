"""The Events API: only Slack may bring events, only now, and it hears the truth about them."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from hermes_sessions.gateway.platforms import webhooks
from hermes_sessions.gateway.platforms.port import Unreachable
from hermes_sessions.gateway.platforms.slack.settings import SlackWebhookSettings
from hermes_sessions.gateway.platforms.slack.webhook import SIGNATURE_HEADER, TIMESTAMP_HEADER
from tests.gateway.platforms.hostile_requests import check_taken_port, is_cut_off, status_of
from tests.gateway.platforms.slack.fake_slack import FakeSlack
from tests.gateway.platforms.slack.harness import AdapterHarness, run_adapter


@pytest.fixture
def messenger() -> Iterator[FakeSlack]:
    messenger = FakeSlack("events")
    yield messenger
    messenger.close()


# ── setting it up ─────────────────────────────────────────────────────────────────────────────


def test_slack_finds_out_that_the_address_is_ours(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        asked = {"type": "url_verification", "token": "x", "challenge": "<script>3eZbrw1aBm2"}
        answer = await harness.bring(asked)
        assert (answer.status_code, answer.text) == (200, asked["challenge"])
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["x-content-type-options"] == "nosniff"
        for challenge in (None, 5, "x" * 2000):
            assert (await harness.bring(asked | {"challenge": challenge})).status_code == 400
        unsigned = await harness.http.post(harness.url, json=asked)
        assert unsigned.status_code == 401

    run_adapter(messenger, act)


# ── signatures ────────────────────────────────────────────────────────────────────────────────


def test_without_the_right_signature_nobody_is_heard(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        call = harness.call()
        body = json.dumps(call).encode()
        right = harness.server.headers_for(body)
        now = right[TIMESTAMP_HEADER]
        bare = hmac.new(harness.server.signing_secret.encode(), body, hashlib.sha256).hexdigest()
        for wrong in (
            "",
            "v0=",
            right[SIGNATURE_HEADER].removeprefix("v0="),
            right[SIGNATURE_HEADER].upper(),
            right[SIGNATURE_HEADER][:-1],
            right[SIGNATURE_HEADER] + "0",
            "v0=" + "0" * 64,
            f"v0={bare}",  # without the time
            harness.server.sign(body + b" ", now),
            harness.server.sign(body, str(int(now) - 1)),
            "x" * 4000,
        ):
            answer = await harness.bring(body, {SIGNATURE_HEADER: wrong, TIMESTAMP_HEADER: now})
            assert answer.status_code == 401, wrong
        for headers in (
            {"X-Other": "1"},
            {TIMESTAMP_HEADER: now},
            {SIGNATURE_HEADER: right[SIGNATURE_HEADER]},
        ):
            assert (await harness.bring(body, headers)).status_code == 401
        assert not harness.services.offered
        assert (await harness.bring(call)).status_code == 200

    run_adapter(messenger, act)


def test_a_body_that_was_changed_on_the_way(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        body = json.dumps(harness.call("Pay 10")).encode()
        headers = harness.server.headers_for(body)
        assert (await harness.bring(body.replace(b"10", b"99"), headers)).status_code == 401
        assert not harness.services.offered

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    ("age", "status"), [(0, 200), (299, 200), (301, 401), (400, 401), (-299, 200), (-301, 401)]
)
def test_what_slack_said_long_ago_counts_no_more(
    messenger: FakeSlack, age: int, status: int
) -> None:
    async def act(harness: AdapterHarness) -> None:
        body = json.dumps(harness.call()).encode()
        headers = harness.server.headers_for(body, now=messenger.now - age)
        assert (await harness.bring(body, headers)).status_code == status
        assert len(harness.services.accepted) == (status == 200)

    run_adapter(messenger, act)


@pytest.mark.parametrize("timestamp", ["", "now", "1e9", "٣", "9" * 5000, "-1", " 1800000000"])
def test_times_that_are_none(messenger: FakeSlack, timestamp: str) -> None:
    async def act(harness: AdapterHarness) -> None:
        body = json.dumps(harness.call()).encode()
        # Header fields as nobody's client would send them.
        head = (
            f"POST /slack/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"{TIMESTAMP_HEADER}: {timestamp}\r\n"
            f"{SIGNATURE_HEADER}: {messenger.server.sign(body, timestamp)}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        assert await status_of(harness.adapter.webhook_port, head.encode() + body) == 401
        assert not harness.services.offered

    run_adapter(messenger, act)


def test_the_signature_is_of_the_body_as_it_came(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        body = json.dumps(harness.call("Grüße 😀"), indent=3, ensure_ascii=True).encode()
        assert (await harness.bring(body)).status_code == 200
        assert await harness.services.texts(1) == ["Grüße 😀"]

    run_adapter(messenger, act)


# ── confirming ────────────────────────────────────────────────────────────────────────────────


def test_a_call_is_confirmed_when_it_is_stored(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        call = harness.call()
        harness.services.fail_with(Unreachable("away"), RuntimeError("bug"))
        answers = [(await harness.bring(call)).status_code for _ in range(3)]
        assert answers == [503, 503, 200]
        assert [each.text for each in harness.services.accepted] == ["Hello"]

    run_adapter(messenger, act)


def test_slack_brings_again_what_was_not_confirmed(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.services.fail_with(Unreachable("away"), RuntimeError("bug"))
        harness.server.write("Hello")
        assert await harness.hear(1) == ["Hello"]
        assert harness.server.deliveries == [503, 503, 200]
        assert [each.get("X-Slack-Retry-Num") for each in harness.server.headers] == [
            None,
            "1",
            "2",
        ]

    run_adapter(messenger, act)


def test_calls_are_taken_one_after_the_other(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        gate = harness.services.hold()
        first = asyncio.create_task(harness.bring(harness.call("first")))
        await harness.services.wait_for(lambda: harness.services.offered)
        second = asyncio.create_task(harness.adapter._take(harness.call("second")))
        for _ in range(50):  # enough for it to be offered, if it did not wait
            await asyncio.sleep(0)
        assert [each.text for each in harness.services.offered] == ["first"]
        gate.set()
        assert (await first).status_code == 200
        await second
        assert [each.text for each in harness.services.accepted] == ["first", "second"]

    run_adapter(messenger, act)


def test_slash_commands_come_as_forms(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        payload = harness.server.type_command("new A & B = 100 %")
        assert await harness.hear(1) == ["/new A & B = 100 %"]
        body = urlencode(payload).encode()
        headers = harness.server.headers_for(body) | {
            "Content-Type": "application/x-www-form-urlencoded; charset=utf-8"
        }
        answer = await harness.bring(body, headers)
        assert (answer.status_code, answer.text) == (200, "")
        first, second = harness.services.accepted
        assert first.message_id == second.message_id

    run_adapter(messenger, act)


# ── what nobody asked for ─────────────────────────────────────────────────────────────────────


def test_other_paths_and_methods_are_not_there(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        root = harness.url.removesuffix("/slack/events")
        for path in ("/", "/slack", "/slack/events/x", "/slack/events/.."):
            assert (await harness.http.post(root + path, json={})).status_code == 404
        assert (await harness.http.get(harness.url)).status_code == 405

    run_adapter(messenger, act)


def test_what_slack_signed_and_nobody_can_read_is_confirmed(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        bodies = (b"", b"no json", b"[" * 100_000, b"null", b"[]", b"x" * 1_000_000, b"\xff\xfe")
        for number, body in enumerate(bodies, start=1):
            assert (await harness.bring(body)).status_code == 200
            assert harness.adapter.unreadable == number
        form = b"&".join(b"a=%d" % number for number in range(500))
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (
            await harness.bring(form, harness.server.headers_for(form) | kind)
        ).status_code == 200
        assert (await harness.bring(harness.call())).status_code == 200
        assert len(harness.services.accepted) == 1

    run_adapter(messenger, act)


def test_a_body_without_end_is_not_received(messenger: FakeSlack) -> None:
    async def act(harness: AdapterHarness) -> None:
        headers = {SIGNATURE_HEADER: "v0=x", TIMESTAMP_HEADER: str(int(messenger.now))}
        assert await is_cut_off(harness.http, harness.url, headers)
        assert (await harness.bring(harness.call())).status_code == 200

    run_adapter(messenger, act)


def test_a_body_that_does_not_come_is_not_waited_for(
    messenger: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_BODY_SECONDS", 0.01)

    async def act(harness: AdapterHarness) -> None:
        begun = (
            f"POST /slack/events HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
            f"{SIGNATURE_HEADER}: v0=x\r\n{TIMESTAMP_HEADER}: {int(messenger.now)}\r\n\r\n"
            f'{{"type": '
        )
        assert await status_of(harness.adapter.webhook_port, begun.encode()) == 408

    run_adapter(messenger, act)


def test_a_port_that_is_taken_is_said(messenger: FakeSlack) -> None:
    check_taken_port(lambda port: messenger.make_adapter(webhook=SlackWebhookSettings(port=port)))
