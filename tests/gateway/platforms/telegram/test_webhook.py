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
from hermes_sessions_testing.fake_servers.telegram.server import ANNA, GROUP, Refusal, bad_request
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.platforms.hostile_requests import check_taken_port, is_cut_off, status_of
from tests.gateway.platforms.telegram.fake_telegram import SECRET, FakeTelegramWebhook

MESSAGE = {
    "message_id": 1,
    "date": 1,
    "chat": {"id": 7, "type": "private", "first_name": "Anna"},
    "from": ANNA,
    "text": "Hello",
}
UPDATE = {"update_id": 1, "message": MESSAGE}


@pytest.fixture
def messenger() -> Iterator[FakeTelegramWebhook]:
    messenger = FakeTelegramWebhook()
    yield messenger
    messenger.close()


class AdapterHarness:
    def __init__(self, messenger: FakeTelegramWebhook) -> None:
        self.server = messenger.server
        self.services = RecordingServices()
        self.adapter = messenger.make_adapter()
        self.http = httpx.AsyncClient()
        self.url = ""

    async def bring(self, content: Any, **headers: str) -> int:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        given = {SECRET_HEADER: SECRET} | {name.replace("_", "-"): v for name, v in headers.items()}
        return (await self.http.post(self.url, content=body, headers=given)).status_code


def run_adapter(
    messenger: FakeTelegramWebhook, act: Callable[[AdapterHarness], Awaitable[None]]
) -> None:
    async def main() -> None:
        harness = AdapterHarness(messenger)
        await harness.adapter.connect(harness.services)
        harness.url = messenger.route(str(harness.server.webhook["url"]))
        try:
            await act(harness)
        finally:
            await harness.http.aclose()
            await harness.adapter.disconnect()

    asyncio.run(main())


def test_telegram_is_told_where_and_with_which_secret(messenger: FakeTelegramWebhook) -> None:
    async def act(harness: AdapterHarness) -> None:
        assert harness.server.webhook["secret_token"] == SECRET
        assert json.loads(harness.server.webhook["allowed_updates"]) == ["message"]
        assert harness.server.webhook["url"] == messenger.url

    run_adapter(messenger, act)


@pytest.mark.parametrize(
    "secret", ["", "wrong", SECRET[:-1], SECRET + "x", SECRET.upper(), "ß" * 10, "x" * 4000]
)
def test_without_the_secret_nobody_is_heard(messenger: FakeTelegramWebhook, secret: str) -> None:
    async def act(harness: AdapterHarness) -> None:
        headers = {SECRET_HEADER.encode(): secret.encode()}
        response = await harness.http.post(harness.url, json=UPDATE, headers=headers)
        assert response.status_code == 403
        assert (await harness.http.post(harness.url, json=UPDATE)).status_code == 403
        assert not harness.services.offered

    run_adapter(messenger, act)


def test_pictures_of_an_album_overtake_each_other(messenger: FakeTelegramWebhook) -> None:
    """All are taken, though one of them names the bot."""

    def picture(number: int, **message: Any) -> dict[str, Any]:
        photo = {"media_group_id": "g", "photo": [{"file_id": str(number), "file_size": 1}]}
        group = {"message_id": number, "chat": GROUP, "text": None}
        return {"update_id": number, "message": {**MESSAGE, **group, **photo, **message}}

    async def act(harness: AdapterHarness) -> None:
        may_go_on = asyncio.Event()

        async def sleep(_seconds: float) -> None:
            await may_go_on.wait()

        harness.adapter._sleep = sleep
        early = asyncio.create_task(harness.bring(picture(2)))
        assert await harness.bring(picture(1, caption="@hermes_bot Three")) == 200
        may_go_on.set()
        assert await early == 200
        assert await harness.bring(picture(3)) == 200
        taken = [file.reference for each in harness.services.accepted for file in each.attachments]
        assert taken == ["1", "2", "3"]

    run_adapter(messenger, act)


def test_other_paths_and_methods_are_not_there(messenger: FakeTelegramWebhook) -> None:
    async def act(harness: AdapterHarness) -> None:
        headers = {SECRET_HEADER: SECRET}
        root = harness.url.removesuffix("/telegram/hook")
        for path in ("/", "/telegram", "/telegram/hook/..", "/telegram/hook/x"):
            response = await harness.http.post(root + path, json=UPDATE, headers=headers)
            assert response.status_code == 404
        assert (await harness.http.get(harness.url, headers=headers)).status_code == 405

    run_adapter(messenger, act)


def test_an_update_is_confirmed_when_it_is_stored(messenger: FakeTelegramWebhook) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.services.fail_with(Unreachable("away"))
        assert await harness.bring(UPDATE) == 503
        assert await harness.bring(UPDATE) == 200
        assert [each.text for each in harness.services.accepted] == ["Hello"]

    run_adapter(messenger, act)


def test_telegram_brings_again_what_was_not_confirmed(messenger: FakeTelegramWebhook) -> None:
    async def act(harness: AdapterHarness) -> None:
        harness.services.fail_with(Unreachable("away"), RuntimeError("bug"))
        harness.server.write("Hello")
        assert await harness.services.texts(1) == ["Hello"]
        await asyncio.to_thread(harness.server.wait_for, lambda: not harness.server.waiting)
        assert harness.server.deliveries == [503, 503, 200]

    run_adapter(messenger, act)


def test_a_replayed_update_is_the_same_message(messenger: FakeTelegramWebhook) -> None:
    async def act(harness: AdapterHarness) -> None:
        for _ in range(3):
            assert await harness.bring(UPDATE) == 200
        assert {each.message_id for each in harness.services.accepted} == {"1"}

    run_adapter(messenger, act)


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
    messenger: FakeTelegramWebhook, body: bytes
) -> None:
    async def act(harness: AdapterHarness) -> None:
        assert await harness.bring(body) == 200
        assert harness.adapter.unreadable == 1
        assert await harness.bring(UPDATE) == 200
        assert len(harness.services.accepted) == 1

    run_adapter(messenger, act)


def test_a_body_without_end_is_not_received(messenger: FakeTelegramWebhook) -> None:
    async def act(harness: AdapterHarness) -> None:
        assert await is_cut_off(harness.http, harness.url, {SECRET_HEADER: SECRET})
        assert await harness.bring(UPDATE) == 200

    run_adapter(messenger, act)


def test_headers_cannot_be_smuggled_in(messenger: FakeTelegramWebhook) -> None:
    """A client that breaks lines gets nowhere."""

    async def act(harness: AdapterHarness) -> None:
        request = (
            f"POST /telegram/hook HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"X-Other: a\r\n {SECRET_HEADER}: {SECRET}\r\nContent-Length: 2\r\n\r\n{{}}"
        )
        assert await status_of(harness.adapter.webhook_port, request.encode()) in (400, 403)
        assert not harness.services.offered

    run_adapter(messenger, act)


def test_a_port_that_is_taken_is_said(messenger: FakeTelegramWebhook) -> None:
    check_taken_port(messenger.make_adapter)


def test_a_webhook_that_telegram_refuses_leaves_nothing_open(
    messenger: FakeTelegramWebhook,
) -> None:
    messenger.server.fail("setWebhook", Refusal(500, "Internal Server Error"))

    async def main() -> None:
        adapter = messenger.make_adapter()
        with pytest.raises(Unreachable):
            await adapter.connect(RecordingServices())
        assert not adapter.is_connected
        assert adapter.webhook_port is None

    asyncio.run(main())


def test_an_address_that_telegram_cannot_use_is_said(messenger: FakeTelegramWebhook) -> None:
    words = "bad webhook: An HTTPS URL must be provided for webhook"
    messenger.server.fail("setWebhook", bad_request(words))
    with pytest.raises(LoginRefused, match=r"webhook\.url: .*https url must"):
        run_adapter(messenger, lambda _: asyncio.sleep(0))


def test_a_body_that_does_not_come_is_not_waited_for(
    messenger: FakeTelegramWebhook, monkeypatch: pytest.MonkeyPatch
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

    async def act(harness: AdapterHarness) -> None:
        answer = await asyncio.to_thread(dawdle, harness.adapter.webhook_port or 0)
        assert answer.split()[1] == b"408"
        # The body of what is brought now may come a moment after its head.
        monkeypatch.undo()
        assert await harness.bring(UPDATE) == 200

    run_adapter(messenger, act)


def test_signals_stay_with_the_gateway(messenger: FakeTelegramWebhook) -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def act(harness: AdapterHarness) -> None:
        assert signal.getsignal(signal.SIGTERM) is before
        assert isinstance(harness.adapter, TelegramAdapter)

    run_adapter(messenger, act)
