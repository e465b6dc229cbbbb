"""The fake Telegram behaves like the real one, called over plain HTTP."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest

from hermes_sessions_testing.fake_servers.telegram.server import (
    ANNA,
    TOKEN,
    Refusal,
    TelegramServer,
    too_many,
)


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    with TelegramServer() as server:
        yield server


def call(telegram: TelegramServer, method: str, token: str = TOKEN, **params: Any) -> Any:
    return httpx.post(f"{telegram.base_url}/bot{token}/{method}", data=params, timeout=30).json()


def numbers(answer: Any) -> list[int]:
    return [update["update_id"] for update in answer["result"]]


def test_names_of_methods_are_in_any_case(telegram: TelegramServer) -> None:
    assert call(telegram, "getMe")["result"]["username"] == "hermes_bot"
    assert call(telegram, "getme")["ok"] is True


def test_a_wrong_token_and_a_wrong_method(telegram: TelegramServer) -> None:
    assert call(telegram, "getMe", token="1:x")["error_code"] == 401
    assert call(telegram, "dance")["error_code"] == 404


def test_updates_wait_until_an_offset_confirms_them(telegram: TelegramServer) -> None:
    first, second = telegram.push({"message": {}}, {"message": {}})
    assert numbers(call(telegram, "getUpdates")) == [first, second]
    assert numbers(call(telegram, "getUpdates", limit=1)) == [first]
    assert numbers(call(telegram, "getUpdates", offset=second)) == [second]
    assert telegram.waiting == [second]
    assert numbers(call(telegram, "getUpdates", offset=second + 1)) == []


def test_a_poll_waits_for_an_update(telegram: TelegramServer) -> None:
    answers: list[Any] = []
    poll = threading.Thread(target=lambda: answers.append(call(telegram, "getUpdates", timeout=30)))
    poll.start()
    telegram.wait_for(lambda: telegram.calls_of("getUpdates"))
    telegram.write("Hello")
    poll.join()
    assert answers[0]["result"][0]["message"]["text"] == "Hello"


def test_a_second_poll_ends_the_first(telegram: TelegramServer) -> None:
    answers: list[Any] = []
    poll = threading.Thread(target=lambda: answers.append(call(telegram, "getUpdates", timeout=30)))
    poll.start()
    telegram.wait_for(lambda: telegram._polls == 1)
    call(telegram, "getUpdates")
    poll.join()
    assert answers[0]["error_code"] == 409


def test_with_a_webhook_there_is_no_polling(telegram: TelegramServer) -> None:
    call(telegram, "setWebhook", url="http://127.0.0.1:9/")
    assert call(telegram, "getUpdates")["error_code"] == 409
    call(telegram, "deleteWebhook")
    assert call(telegram, "getUpdates")["ok"] is True


def test_a_webhook_is_called_with_its_secret_until_it_takes_the_update(
    telegram: TelegramServer,
) -> None:
    seen: list[tuple[str | None, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((self.headers["X-Telegram-Bot-Api-Secret-Token"], body))
            self.send_response(503 if len(seen) == 1 else 200)
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as hook:
        thread = threading.Thread(target=lambda: [hook.handle_request() for _ in range(2)])
        thread.start()
        address = f"http://127.0.0.1:{hook.server_port}/"
        call(telegram, "setWebhook", url=address, secret_token="s3cret")
        (number,) = telegram.push({"message": {}})
        telegram.wait_for(lambda: not telegram.waiting)
        thread.join()
    assert [(secret, body["update_id"]) for secret, body in seen] == [("s3cret", number)] * 2
    assert telegram.deliveries == [503, 200]


@pytest.mark.parametrize(
    ("params", "description"),
    [
        ({"chat_id": 404, "text": "x"}, "Bad Request: chat not found"),
        ({"chat_id": 7, "text": " "}, "Bad Request: message text is empty"),
        ({"chat_id": 7, "text": "x" * 4097}, "Bad Request: message is too long"),
        ({"chat_id": 7, "text": "😀" * 2049}, "Bad Request: message is too long"),
        (
            {"chat_id": 7, "text": "x", "message_thread_id": 3},
            "Bad Request: message thread not found",
        ),
        (
            {"chat_id": 7, "text": "</b>x", "parse_mode": "HTML"},
            "Bad Request: can't parse entities: Unexpected end tag at byte offset 0",
        ),
    ],
)
def test_what_cannot_be_sent(
    telegram: TelegramServer, params: dict[str, Any], description: str
) -> None:
    telegram.write("Hello")
    answer = call(telegram, "sendMessage", **params)
    assert (answer["error_code"], answer["description"]) == (400, description)
    assert not telegram.sent


def test_messages_are_sent_and_changed(telegram: TelegramServer) -> None:
    telegram.write("Hello")
    sent = call(telegram, "sendMessage", chat_id=7, text="<b>Hi</b>", parse_mode="HTML")["result"]
    assert telegram.sent[0].text == "Hi"
    change = {"chat_id": 7, "message_id": sent["message_id"], "text": "Bye"}
    assert call(telegram, "editMessageText", **change)["ok"] is True
    assert "not modified" in call(telegram, "editMessageText", **change)["description"]
    assert (telegram.sent[0].text, telegram.sent[0].earlier) == ("Bye", ["Hi"])
    missing = call(telegram, "editMessageText", chat_id=7, message_id=99, text="x")
    assert missing["description"] == "Bad Request: message to edit not found"


def test_somebody_who_blocked_the_bot(telegram: TelegramServer) -> None:
    telegram.write("Hello")
    telegram.block(int(ANNA["id"]))  # type: ignore[call-overload]
    assert call(telegram, "sendMessage", chat_id=7, text="x")["error_code"] == 403


def test_failures_on_demand(telegram: TelegramServer) -> None:
    telegram.fail("getMe", too_many(3), Refusal(500, "Internal Server Error"))
    assert call(telegram, "getMe")["parameters"] == {"retry_after": 3}
    assert call(telegram, "getMe")["error_code"] == 500
    telegram.cut("getMe")
    with pytest.raises(httpx.TransportError):
        call(telegram, "getMe")
    assert call(telegram, "getMe")["ok"] is True


def test_a_connection_may_be_lost_after_the_message_was_sent(telegram: TelegramServer) -> None:
    telegram.write("Hello")
    telegram.cut("sendMessage", is_done=True)
    with pytest.raises(httpx.TransportError):
        call(telegram, "sendMessage", chat_id=7, text="x")
    assert len(telegram.sent) == 1
