"""The webhook: only Telegram may bring updates, and it hears the truth about them."""

import asyncio
import json
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from hermes_sessions.gateway.platforms import webhooks
from hermes_sessions.gateway.platforms.port import LoginRefused, Unreachable
from hermes_sessions.gateway.platforms.telegram.adapter import TelegramAdapter
from hermes_sessions.gateway.platforms.telegram.webhook import SECRET_HEADER
from hermes_sessions.testing.platforms import RecordingServices
from hermes_sessions.testing.telegram_server import ANNA, GROUP, Refusal, bad_request
from tests.gateway.platforms.hostile_requests import check_taken_port, is_cut_off, status_of
from tests.gateway.platforms.telegram.fake_telegram import SECRET, TelegramWebhookWorld

MESSAGE = {
    "message_id": 1,
    "date": 1,
    "chat": {"id": 7, "type": "private", "first_name": "Anna"},
    "from": ANNA,
    "text": "Hello",
}
UPDATE = {"update_id": 1, "message": MESSAGE}


@pytest.fixture
def world() -> Iterator[TelegramWebhookWorld]:
    world = TelegramWebhookWorld()
    yield world
    world.close()


class Scene:
    def __init__(self, world: TelegramWebhookWorld) -> None:
        self.server = world.server
        self.services = RecordingServices()
        self.adapter = world.make_adapter()
        self.http = httpx.AsyncClient()
        self.url = ""

    async def bring(self, content: Any, **headers: str) -> int:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        given = {SECRET_HEADER: SECRET} | {name.replace("_", "-"): v for name, v in headers.items()}
        return (await self.http.post(self.url, content=body, headers=given)).status_code


def play(world: TelegramWebhookWorld, act: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        scene = Scene(world)
        await scene.adapter.connect(scene.services)
        scene.url = world.route(str(scene.server.webhook["url"]))
        try:
            await act(scene)
        finally:
            await scene.http.aclose()
            await scene.adapter.disconnect()

    asyncio.run(main())


def test_telegram_is_told_where_and_with_which_secret(world: TelegramWebhookWorld) -> None:
    async def act(scene: Scene) -> None:
        assert scene.server.webhook["secret_token"] == SECRET
        assert json.loads(scene.server.webhook["allowed_updates"]) == ["message"]
        assert scene.server.webhook["url"] == world.url

    play(world, act)


@pytest.mark.parametrize(
    "secret", ["", "wrong", SECRET[:-1], SECRET + "x", SECRET.upper(), "ß" * 10, "x" * 4000]
)
def test_without_the_secret_nobody_is_heard(world: TelegramWebhookWorld, secret: str) -> None:
    async def act(scene: Scene) -> None:
        headers = {SECRET_HEADER.encode(): secret.encode()}
        response = await scene.http.post(scene.url, json=UPDATE, headers=headers)
        assert response.status_code == 403
        assert (await scene.http.post(scene.url, json=UPDATE)).status_code == 403
        assert not scene.services.offered

    play(world, act)


def test_pictures_of_an_album_overtake_each_other(world: TelegramWebhookWorld) -> None:
    """All are taken, though one of them names the bot."""

    def picture(number: int, **message: Any) -> dict[str, Any]:
        photo = {"media_group_id": "g", "photo": [{"file_id": str(number), "file_size": 1}]}
        group = {"message_id": number, "chat": GROUP, "text": None}
        return {"update_id": number, "message": {**MESSAGE, **group, **photo, **message}}

    async def act(scene: Scene) -> None:
        may_go_on = asyncio.Event()

        async def sleep(_seconds: float) -> None:
            await may_go_on.wait()

        scene.adapter._sleep = sleep
        early = asyncio.create_task(scene.bring(picture(2)))
        assert await scene.bring(picture(1, caption="@hermes_bot Three")) == 200
        may_go_on.set()
        assert await early == 200
        assert await scene.bring(picture(3)) == 200
        taken = [file.reference for each in scene.services.accepted for file in each.attachments]
        assert taken == ["1", "2", "3"]

    play(world, act)


def test_other_paths_and_methods_are_not_there(world: TelegramWebhookWorld) -> None:
    async def act(scene: Scene) -> None:
        headers = {SECRET_HEADER: SECRET}
        root = scene.url.removesuffix("/telegram/hook")
        for path in ("/", "/telegram", "/telegram/hook/..", "/telegram/hook/x"):
            response = await scene.http.post(root + path, json=UPDATE, headers=headers)
            assert response.status_code == 404
        assert (await scene.http.get(scene.url, headers=headers)).status_code == 405

    play(world, act)


def test_an_update_is_confirmed_when_it_is_stored(world: TelegramWebhookWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.services.fail_with(Unreachable("away"))
        assert await scene.bring(UPDATE) == 503
        assert await scene.bring(UPDATE) == 200
        assert [each.text for each in scene.services.accepted] == ["Hello"]

    play(world, act)


def test_telegram_brings_again_what_was_not_confirmed(world: TelegramWebhookWorld) -> None:
    async def act(scene: Scene) -> None:
        scene.services.fail_with(Unreachable("away"), RuntimeError("bug"))
        scene.server.write("Hello")
        assert await scene.services.texts(1) == ["Hello"]
        await asyncio.to_thread(scene.server.wait_for, lambda: not scene.server.waiting)
        assert scene.server.deliveries == [503, 503, 200]

    play(world, act)


def test_a_replayed_update_is_the_same_message(world: TelegramWebhookWorld) -> None:
    async def act(scene: Scene) -> None:
        for _ in range(3):
            assert await scene.bring(UPDATE) == 200
        assert {each.message_id for each in scene.services.accepted} == {"1"}

    play(world, act)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"\xff\xfe",
        b"[" * 100_000,
        b"null",
        b"[]",
        b'{"message": {}}',
        b'{"update_id": 5, "message": {"chat": 5}}',
        b'{"update_id": 1, "message": ' + json.dumps(MESSAGE | {"text": "x" * 2_000_000}).encode(),
    ],
    ids=range(9),
)
def test_what_cannot_be_read_is_confirmed_and_counted(
    world: TelegramWebhookWorld, body: bytes
) -> None:
    async def act(scene: Scene) -> None:
        assert await scene.bring(body) == 200
        assert scene.adapter.unreadable == 1
        assert await scene.bring(UPDATE) == 200
        assert len(scene.services.accepted) == 1

    play(world, act)


def test_a_body_without_end_is_not_received(world: TelegramWebhookWorld) -> None:
    async def act(scene: Scene) -> None:
        assert await is_cut_off(scene.http, scene.url, {SECRET_HEADER: SECRET})
        assert await scene.bring(UPDATE) == 200

    play(world, act)


def test_headers_cannot_be_smuggled_in(world: TelegramWebhookWorld) -> None:
    """A client that breaks lines gets nowhere."""

    async def act(scene: Scene) -> None:
        request = (
            f"POST /telegram/hook HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"X-Other: a\r\n {SECRET_HEADER}: {SECRET}\r\nContent-Length: 2\r\n\r\n{{}}"
        )
        assert await status_of(scene.adapter.webhook_port, request.encode()) in (400, 403)
        assert not scene.services.offered

    play(world, act)


def test_a_port_that_is_taken_is_said(world: TelegramWebhookWorld) -> None:
    check_taken_port(world.make_adapter)


def test_a_webhook_that_telegram_refuses_leaves_nothing_open(world: TelegramWebhookWorld) -> None:
    world.server.fail("setWebhook", Refusal(500, "Internal Server Error"))

    async def main() -> None:
        adapter = world.make_adapter()
        with pytest.raises(Unreachable):
            await adapter.connect(RecordingServices())
        assert not adapter.is_connected
        assert adapter.webhook_port is None

    asyncio.run(main())


def test_an_address_that_telegram_cannot_use_is_said(world: TelegramWebhookWorld) -> None:
    words = "bad webhook: An HTTPS URL must be provided for webhook"
    world.server.fail("setWebhook", bad_request(words))
    with pytest.raises(LoginRefused, match=r"webhook\.url: .*https url must"):
        play(world, lambda _: asyncio.sleep(0))


def test_a_body_that_does_not_come_is_not_waited_for(
    world: TelegramWebhookWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_BODY_SECONDS", 0.01)

    def dawdle(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(
                b"POST /telegram/hook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
                + f"{SECRET_HEADER}: {SECRET}\r\n\r\n".encode()
                + b'{"update_id": 1'
            )
            return connection.recv(65536)

    async def act(scene: Scene) -> None:
        answer = await asyncio.to_thread(dawdle, scene.adapter.webhook_port or 0)
        assert answer.split()[1] == b"408"
        # The body of what is brought now may come a moment after its head.
        monkeypatch.undo()
        assert await scene.bring(UPDATE) == 200

    play(world, act)


def test_signals_stay_with_the_gateway(world: TelegramWebhookWorld) -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def act(scene: Scene) -> None:
        assert signal.getsignal(signal.SIGTERM) is before
        assert isinstance(scene.adapter, TelegramAdapter)

    play(world, act)
