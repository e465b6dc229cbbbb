"""The webhook: only Meta may bring messages, and it hears the truth about them."""

import asyncio
import hashlib
import hmac
import json
from typing import Any

import pytest

from hermes_sessions.gateway.platforms import webhooks
from hermes_sessions.gateway.platforms.port import Unreachable
from hermes_sessions.gateway.platforms.whatsapp.settings import WhatsAppWebhookSettings
from hermes_sessions.gateway.platforms.whatsapp.webhook import SIGNATURE_HEADER
from tests.gateway.platforms.hostile_requests import check_taken_port, is_cut_off, status_of
from tests.gateway.platforms.whatsapp.fake_whatsapp import VERIFY_TOKEN, FakeWhatsApp
from tests.gateway.platforms.whatsapp.harness import AdapterHarness, run_adapter

# ── setting it up ─────────────────────────────────────────────────────────────────────────────


def test_meta_finds_out_that_the_address_is_ours(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        verify = harness.server.verify
        assert await asyncio.to_thread(verify, VERIFY_TOKEN)
        for wrong in ("", "wrong", VERIFY_TOKEN[:-1], VERIFY_TOKEN.upper(), "ß", "x" * 5000):
            assert not await asyncio.to_thread(verify, wrong)

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"hub.verify_token": VERIFY_TOKEN, "hub.challenge": "1"},
        {"hub.mode": "unsubscribe", "hub.verify_token": VERIFY_TOKEN, "hub.challenge": "1"},
        {"hub.mode": "subscribe", "hub.verify_token": VERIFY_TOKEN, "hub.challenge": "x" * 257},
    ],
    ids=range(4),
)
def test_other_questions_are_not_answered(messenger: FakeWhatsApp, query: dict[str, str]) -> None:
    async def act(harness: AdapterHarness) -> None:
        assert (await harness.http.get(harness.url, params=query)).status_code == 403

    run_adapter(messenger, act)


def test_what_is_echoed_is_text(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        query = {"hub.mode": "subscribe", "hub.verify_token": VERIFY_TOKEN}
        answer = await harness.http.get(
            harness.url, params=query | {"hub.challenge": "<script>alert(1)</script>"}
        )
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["x-content-type-options"] == "nosniff"

    run_adapter(messenger, act)


# ── signatures ────────────────────────────────────────────────────────────────────────────────


def test_without_the_right_signature_nobody_is_heard(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        call = harness.call()
        body = json.dumps(call).encode()
        right = harness.server.sign(body)
        old = hmac.new(harness.server.app_secret.encode(), body, hashlib.sha1).hexdigest()
        for wrong in (
            "",
            "sha256=",
            right.removeprefix("sha256="),
            right.upper(),
            right[:-1],
            right + "0",
            f"sha1={old}",
            "sha256=" + "0" * 64,
            harness.server.sign(body + b" "),
            "x" * 4000,
        ):
            assert await harness.bring(call, wrong) == 401
        assert (await harness.http.post(harness.url, content=body)).status_code == 401
        assert not harness.services.offered
        assert await harness.bring(call) == 200

    run_adapter(messenger, act)


def test_the_signature_is_of_the_body_as_it_came(messenger: FakeWhatsApp) -> None:
    """Not of what a parser would write again."""

    async def act(harness: AdapterHarness) -> None:
        body = json.dumps(harness.call("Grüße 😀"), indent=3, ensure_ascii=True).encode()
        assert await harness.bring(body) == 200
        assert await harness.services.texts(1) == ["Grüße 😀"]

    run_adapter(messenger, act)


def test_a_replayed_call_is_the_same_message(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        call = harness.call()
        for _ in range(3):
            assert await harness.bring(call) == 200
        assert len({each.message_id for each in harness.services.accepted}) == 1
        messenger.now += 9 * 86400
        assert await harness.bring(call) == 200
        assert len(harness.services.offered) == 3
        assert harness.adapter.unreadable == 1

    run_adapter(messenger, act)


def test_headers_cannot_be_smuggled_in(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        request = (
            f"POST /whatsapp HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"X-Other: a\r\n {SIGNATURE_HEADER}: {harness.server.sign(b'{}')}\r\n"
            f"Content-Length: 2\r\n\r\n{{}}"
        )
        assert await status_of(harness.adapter.webhook_port, request.encode()) in (400, 401)

    run_adapter(messenger, act)


# ── confirming ────────────────────────────────────────────────────────────────────────────────


def test_a_call_is_confirmed_when_it_is_stored(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        call = harness.call()
        harness.services.fail_with(Unreachable("away"), RuntimeError("bug"))
        assert [await harness.bring(call) for _ in range(3)] == [503, 503, 200]
        assert [each.text for each in harness.services.accepted] == ["Hello"]

    run_adapter(messenger, act)


def test_meta_brings_again_what_was_not_confirmed(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.services.fail_with(Unreachable("away"), RuntimeError("bug"))
        harness.server.write("Hello")
        assert await harness.services.texts(1) == ["Hello"]
        await asyncio.to_thread(harness.server.wait_for, lambda: not harness.server.waiting)
        assert harness.server.deliveries == [503, 503, 200]

    run_adapter(messenger, act)


def test_many_messages_in_one_call_are_confirmed_together(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        messages = [harness.server.message(text) for text in ("one", "two", "three")]
        call = harness.server.call(
            harness.server.value(messages[:2]), harness.server.value(messages[2:])
        )
        harness.services.hold().set()
        accept, calls = harness.services.accept, 0

        async def fail_at_the_second(inbound: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise Unreachable("away")
            return await accept(inbound)

        harness.services.accept = fail_at_the_second  # type: ignore[method-assign]
        assert await harness.bring(call) == 503
        assert await harness.bring(call) == 200
        texts = [each.text for each in harness.services.accepted]
        assert texts == ["one", "one", "two", "three"]

    run_adapter(messenger, act)


def test_calls_on_many_connections_are_taken_as_they_came(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        gate = harness.services.hold()
        first = asyncio.create_task(harness.bring(harness.call("first")))
        await harness.services.wait_for(lambda: harness.services.offered)
        second = asyncio.create_task(harness.adapter._take(harness.call("second")))
        for _ in range(50):  # enough for it to be offered, if it did not wait
            await asyncio.sleep(0)
        assert [each.text for each in harness.services.offered] == ["first"]
        gate.set()
        assert await first == 200
        assert await second
        assert [each.text for each in harness.services.accepted] == ["first", "second"]

    run_adapter(messenger, act)


# ── what nobody asked for ─────────────────────────────────────────────────────────────────────


def test_other_paths_and_methods_are_not_there(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        root = harness.url.removesuffix("/whatsapp")
        for path in ("/", "/whatsapp/x", "/whatsapp/..", "/v24.0/messages"):
            assert (await harness.http.post(root + path, json={})).status_code == 404
        assert (await harness.http.put(harness.url, json={})).status_code == 405

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"\xff\xfe", b"[" * 100_000, b"null", b"[]", b"x" * 4_000_000]
)
def test_what_meta_signed_and_nobody_can_read_is_confirmed(
    messenger: FakeWhatsApp, body: bytes
) -> None:
    async def act(harness: AdapterHarness) -> None:
        assert await harness.bring(body) == 200
        assert harness.adapter.unreadable == 1
        assert await harness.bring(harness.call()) == 200
        assert len(harness.services.accepted) == 1

    run_adapter(messenger, act)


def test_a_body_without_end_is_not_received(messenger: FakeWhatsApp) -> None:
    async def act(harness: AdapterHarness) -> None:
        assert await is_cut_off(harness.http, harness.url, {SIGNATURE_HEADER: "sha256=x"})
        assert await harness.bring(harness.call()) == 200

    run_adapter(messenger, act)


def test_a_body_that_does_not_come_is_not_waited_for(
    messenger: FakeWhatsApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_BODY_SECONDS", 0.01)

    async def act(harness: AdapterHarness) -> None:
        begun = (
            f"POST /whatsapp HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
            f'{SIGNATURE_HEADER}: sha256=x\r\n\r\n{{"object": '
        )
        assert await status_of(harness.adapter.webhook_port, begun.encode()) == 408

    run_adapter(messenger, act)


def test_a_port_that_is_taken_is_said(messenger: FakeWhatsApp) -> None:
    check_taken_port(
        lambda port: messenger.make_adapter(webhook=WhatsAppWebhookSettings(port=port))
    )
