"""The webhook: only Meta may bring messages, and it hears the truth about them."""

import asyncio
import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest

from hermes_sessions.gateway.platforms import webhooks
from hermes_sessions.gateway.platforms.port import Unreachable
from hermes_sessions.gateway.platforms.whatsapp.settings import WEBHOOK
from hermes_sessions.gateway.platforms.whatsapp.webhook import SIGNATURE_HEADER
from tests.gateway.platforms.hostile_requests import check_taken_port, is_cut_off, status_of
from tests.gateway.platforms.whatsapp.fake_whatsapp import VERIFY_TOKEN, WhatsAppWorld
from tests.gateway.platforms.whatsapp.harness import Scene, play

# ── setting it up ─────────────────────────────────────────────────────────────────────────────


def test_meta_finds_out_that_the_address_is_ours(world: WhatsAppWorld) -> None:
    async def act(scene: Scene) -> None:
        verify = scene.server.verify
        assert await asyncio.to_thread(verify, VERIFY_TOKEN)
        for wrong in ("", "wrong", VERIFY_TOKEN[:-1], VERIFY_TOKEN.upper(), "ß", "x" * 5000):
            assert not await asyncio.to_thread(verify, wrong)

    play(world, act)


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
def test_other_questions_are_not_answered(world: WhatsAppWorld, query: dict[str, str]) -> None:
    async def act(scene: Scene) -> None:
        assert (await scene.http.get(scene.url, params=query)).status_code == 403

    play(world, act)


def test_what_is_echoed_is_text(world: WhatsAppWorld) -> None:
    async def act(scene: Scene) -> None:
        query = {"hub.mode": "subscribe", "hub.verify_token": VERIFY_TOKEN}
        answer = await scene.http.get(
            scene.url, params=query | {"hub.challenge": "<script>alert(1)</script>"}
        )
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["x-content-type-options"] == "nosniff"

    play(world, act)


# ── signatures ────────────────────────────────────────────────────────────────────────────────


def test_without_the_right_signature_nobody_is_heard(world: WhatsAppWorld) -> None:
    async def act(scene: Scene) -> None:
        call = scene.call()
        body = json.dumps(call).encode()
        right = scene.server.sign(body)
        old = hmac.new(scene.server.app_secret.encode(), body, hashlib.sha1).hexdigest()
        for wrong in (
            "",
            "sha256=",
            right.removeprefix("sha256="),
            right.upper(),
            right[:-1],
            right + "0",
            f"sha1={old}",
            "sha256=" + "0" * 64,
            scene.server.sign(body + b" "),
            "x" * 4000,
        ):
            assert await scene.bring(call, wrong) == 401
        assert (await scene.http.post(scene.url, content=body)).status_code == 401
        assert not scene.services.offered
        assert await scene.bring(call) == 200

    play(world, act)


def test_the_signature_is_of_the_body_as_it_came(world: WhatsAppWorld) -> None:
    """Not of what a parser would write again."""

    async def act(scene: Scene) -> None:
        body = json.dumps(scene.call("Grüße 😀"), indent=3, ensure_ascii=True).encode()
        assert await scene.bring(body) == 200
        assert await scene.services.texts(1) == ["Grüße 😀"]

    play(world, act)


def test_a_replayed_call_is_the_same_message(world: WhatsAppWorld) -> None:
    async def act(scene: Scene) -> None:
        call = scene.call()
        for _ in range(3):
            assert await scene.bring(call) == 200
        assert len({each.message_id for each in scene.services.accepted}) == 1
        world.now += 9 * 86400
        assert await scene.bring(call) == 200
        assert len(scene.services.offered) == 3
        assert scene.adapter.unreadable == 1

    play(world, act)


def test_headers_cannot_be_smuggled_in(world: WhatsAppWorld) -> None:
    async def act(scene: Scene) -> None:
        request = (
            f"POST /whatsapp HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"X-Other: a\r\n {SIGNATURE_HEADER}: {scene.server.sign(b'{}')}\r\n"
            f"Content-Length: 2\r\n\r\n{{}}"
        )
        assert await status_of(scene.adapter.webhook_port, request.encode()) in (400, 401)

    play(world, act)


# ── confirming ────────────────────────────────────────────────────────────────────────────────


def test_a_call_is_confirmed_when_it_is_stored(world: WhatsAppWorld) -> None:
    async def act(scene: Scene) -> None:
        call = scene.call()
        scene.services.fail_with(Unreachable("away"), RuntimeError("bug"))
        assert [await scene.bring(call) for _ in range(3)] == [503, 503, 200]
        assert [each.text for each in scene.services.accepted] == ["Hello"]

    play(world, act)


def test_meta_brings_again_what_was_not_confirmed(world: WhatsAppWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.services.fail_with(Unreachable("away"), RuntimeError("bug"))
        scene.server.write("Hello")
        assert await scene.services.texts(1) == ["Hello"]
        await asyncio.to_thread(scene.server.wait_for, lambda: not scene.server.waiting)
        assert scene.server.deliveries == [503, 503, 200]

    play(world, act)


def test_many_messages_in_one_call_are_confirmed_together(world: WhatsAppWorld) -> None:
    async def act(scene: Scene) -> None:
        messages = [scene.server.message(text) for text in ("one", "two", "three")]
        call = scene.server.call(scene.server.value(messages[:2]), scene.server.value(messages[2:]))
        scene.services.hold().set()
        accept, calls = scene.services.accept, 0

        async def fail_at_the_second(inbound: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise Unreachable("away")
            return await accept(inbound)

        scene.services.accept = fail_at_the_second  # type: ignore[method-assign]
        assert await scene.bring(call) == 503
        assert await scene.bring(call) == 200
        texts = [each.text for each in scene.services.accepted]
        assert texts == ["one", "one", "two", "three"]

    play(world, act)


def test_calls_on_many_connections_are_taken_as_they_came(world: WhatsAppWorld) -> None:
    async def act(scene: Scene) -> None:
        gate = scene.services.hold()
        first = asyncio.create_task(scene.bring(scene.call("first")))
        await scene.services.wait_for(lambda: scene.services.offered)
        second = asyncio.create_task(scene.adapter._take(scene.call("second")))
        for _ in range(50):  # enough for it to be offered, if it did not wait
            await asyncio.sleep(0)
        assert [each.text for each in scene.services.offered] == ["first"]
        gate.set()
        assert await first == 200
        assert await second
        assert [each.text for each in scene.services.accepted] == ["first", "second"]

    play(world, act)


# ── what nobody asked for ─────────────────────────────────────────────────────────────────────


def test_other_paths_and_methods_are_not_there(world: WhatsAppWorld) -> None:
    async def act(scene: Scene) -> None:
        root = scene.url.removesuffix("/whatsapp")
        for path in ("/", "/whatsapp/x", "/whatsapp/..", "/v24.0/messages"):
            assert (await scene.http.post(root + path, json={})).status_code == 404
        assert (await scene.http.put(scene.url, json={})).status_code == 405

    play(world, act)


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"\xff\xfe", b"[" * 100_000, b"null", b"[]", b"x" * 4_000_000]
)
def test_what_meta_signed_and_nobody_can_read_is_confirmed(
    world: WhatsAppWorld, body: bytes
) -> None:
    async def act(scene: Scene) -> None:
        assert await scene.bring(body) == 200
        assert scene.adapter.unreadable == 1
        assert await scene.bring(scene.call()) == 200
        assert len(scene.services.accepted) == 1

    play(world, act)


def test_a_body_without_end_is_not_received(world: WhatsAppWorld) -> None:
    async def act(scene: Scene) -> None:
        assert await is_cut_off(scene.http, scene.url, {SIGNATURE_HEADER: "sha256=x"})
        assert await scene.bring(scene.call()) == 200

    play(world, act)


def test_a_body_that_does_not_come_is_not_waited_for(
    world: WhatsAppWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_BODY_SECONDS", 0.01)

    async def act(scene: Scene) -> None:
        begun = (
            f"POST /whatsapp HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
            f'{SIGNATURE_HEADER}: sha256=x\r\n\r\n{{"object": '
        )
        assert await status_of(scene.adapter.webhook_port, begun.encode()) == 408

    play(world, act)


def test_a_port_that_is_taken_is_said(world: WhatsAppWorld) -> None:
    check_taken_port(lambda port: world.make_adapter(webhook=replace(WEBHOOK, port=port)))
