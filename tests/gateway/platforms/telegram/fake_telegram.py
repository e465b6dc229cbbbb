"""The fake Telegram server, driven by the platform kit."""

import asyncio
from collections.abc import Callable
from typing import Any

from hermes_sessions.gateway.platforms.telegram.adapter import TelegramAdapter
from hermes_sessions.gateway.platforms.telegram.settings import (
    TelegramSettings,
    TelegramWebhookSettings,
)
from hermes_sessions_testing.fake_servers.telegram.server import (
    ANNA,
    BERT,
    BOT,
    GROUP,
    TelegramServer,
    too_many,
)
from hermes_sessions_testing.platforms import MessengerServer, Room, Sender, Shown

SECRET = "a-secret-that-only-telegram-knows"
ROBOT = {"id": 55, "is_bot": True, "first_name": "Robot", "username": "robot_bot"}
SENDERS = {"anna": ANNA, "bert": BERT, "robot": ROBOT}
TOPIC = 77


async def at_once(_seconds: float) -> None:
    """Wait without waiting, and let others go on."""
    await asyncio.sleep(0)


class FakeTelegram(MessengerServer):
    """Updates are asked for."""

    def __init__(self) -> None:
        self.server = TelegramServer()
        self._token = self.server.token
        self._messages: dict[str, Any] = {}
        self._numbers: dict[str, int] = {}

    def settings(self, **changes: Any) -> TelegramSettings:
        values = {"base_url": self.server.base_url, "token": self._token}
        return TelegramSettings(**(values | changes))

    def make_adapter(self) -> TelegramAdapter:
        return TelegramAdapter(self.settings(), sleep=at_once)

    def write(self, text: str, *, sender: Sender = "anna", room: Room = "private") -> str:
        message_id = str(1000 + len(self._messages))
        user = SENDERS[sender]
        message = {
            "message_id": int(message_id),
            "date": 1700000000,
            "from": user,
            "chat": {"id": user["id"], "type": "private", "first_name": user["first_name"]},
            "text": text,
        }
        if room != "private":
            message |= {"chat": GROUP, "text": f"@{BOT['username']} {text}"}
        if room == "topic":
            message |= {"message_thread_id": TOPIC, "is_topic_message": True}
        self._messages[message_id] = message
        self._deliver(message_id)
        return message_id

    def _deliver(self, message_id: str) -> None:
        (self._numbers[message_id],) = self.server.push({"message": self._messages[message_id]})

    def deliver_again(self, message_id: str) -> None:
        self._deliver(message_id)

    def deliver_unreadable(self) -> None:
        fine = {"message_id": 1, "date": 1, "chat": {"id": 7, "type": "private"}, "from": ANNA}
        self.server.push(
            {},
            {"message": None},
            {"message": []},
            {"message": {"chat": 5}},
            {"message": fine | {"text": 5}},
            {"message": fine | {"chat": {"id": "x", "type": "private"}, "text": "x"}},
            {"message": fine | {"photo": [{}]}},
            {"message": fine | {"text": "x" * 900_000}},
            {"message": fine | {"text": "\ud83d", "from": {}}},
            {"edited_message": fine | {"text": "edited"}},
            {"unheard_of": {"since": "Bot API 99"}},
        )

    def block(self, chat_id: str) -> None:
        self.server.block(int(chat_id))

    def refuse_logins(self) -> None:
        self._token = "123456789:AAwrongwrongwrongwrongwrongwrongwro"

    def limit_rate(self, seconds: float) -> None:
        self.server.fail("sendMessage", too_many(int(seconds)))

    def lose_connections(self) -> None:
        self.server.cut("getUpdates", times=2)
        self.server.babble("getUpdates", b"<html>Bad Gateway</html>", 502)
        self.server.drop_connections()

    def lose_next_send(self) -> None:
        self.server.cut("sendMessage")

    def shown(self) -> list[Shown]:
        return [
            Shown(
                str(sent.chat_id),
                str(sent.message_id),
                sent.text,
                None if sent.thread_id is None else str(sent.thread_id),
            )
            for sent in self.server.sent
        ]

    def is_confirmed(self, message_id: str) -> bool:
        return self._numbers[message_id] not in self.server.waiting

    def has_unconfirmed(self) -> bool:
        return bool(self.server.waiting)

    def wait_until(self, condition: Callable[[], Any]) -> None:
        self.server.wait_for(condition)

    def close(self) -> None:
        self.server.close()


class FakeTelegramWebhook(FakeTelegram):
    """Updates are brought, through what would be a proxy."""

    url = "https://bot.example.org/telegram/hook"

    def __init__(self) -> None:
        super().__init__()
        self._adapter: TelegramAdapter | None = None
        self.server.route = self.route

    def route(self, url: str) -> str:
        port = self._adapter.webhook_port if self._adapter else None
        return url.replace("https://bot.example.org", f"http://127.0.0.1:{port or 1}")

    def make_adapter(self, port: int = 0) -> TelegramAdapter:
        webhook = TelegramWebhookSettings(url=self.url, secret=SECRET, port=port)
        self._adapter = TelegramAdapter(self.settings(webhook=webhook), sleep=at_once)
        return self._adapter

    def lose_connections(self) -> None:
        """Telegram's side of it: what is brought is brought again."""
        self.server.drop_connections()
