"""The conformance kit of platforms on a messenger from another package."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.config.sections import NamedValues
from hermes_sessions.gateway.platforms.port import Adapter
from hermes_sessions.gateway.platforms.registry import find_spec
from hermes_sessions_testing.platforms import (
    MessengerServer,
    Room,
    Sender,
    Shown,
    TestConnecting,
    TestEditing,
    TestMapping,
    TestReceiving,
    TestSending,
)
from tests.gateway.platforms.third_party.pigeon_server import TOKEN, PigeonServer

__all__ = ["TestConnecting", "TestEditing", "TestMapping", "TestReceiving", "TestSending"]


async def at_once(_seconds: float) -> None:
    await asyncio.sleep(0)


class PigeonMessenger(MessengerServer):
    def __init__(self) -> None:
        self.server = PigeonServer()
        self._token = TOKEN
        self._numbers: dict[str, int] = {}
        self._messages: dict[str, dict[str, object]] = {}

    def make_adapter(self) -> Adapter:
        spec = find_spec("pigeon")
        extra = NamedValues({"url": self.server.url, "poll_seconds": "5"})
        own = spec.read(PlatformSettings(token=self._token, extra=extra), Path("/home/of"))
        from hermes_pigeon.adapter import PigeonAdapter

        return PigeonAdapter(own, sleep=at_once)

    def write(self, text: str, *, sender: Sender = "anna", room: Room = "private") -> str:
        chat = None if room == "private" else "loft"
        topic = "eggs" if room == "topic" else None
        message_id, message = self.server.write(text, sender=sender, chat=chat, topic=topic)
        self._messages[message_id] = message
        self._numbers[message_id] = int(message_id[1:])
        return message_id

    def deliver_again(self, message_id: str) -> None:
        self._numbers[message_id] = self.server.push(self._messages[message_id])

    def deliver_unreadable(self) -> None:
        fine = {"id": "x", "chat": {"id": "anna"}, "sender": {"id": "anna"}, "text": "x"}
        for message in (
            None,
            [],
            {},
            fine | {"chat": 5},
            fine | {"sender": {}},
            fine | {"text": 5},
            fine | {"text": "x" * 900_000},
        ):
            self.server.push(message)

    def block(self, chat_id: str) -> None:
        self.server.blocked.add(chat_id)

    def refuse_logins(self) -> None:
        self._token = "pgn-wrongwrong"

    def limit_rate(self, seconds: float) -> None:
        self.server.faults["send"].append((429, {"retry_after": seconds}))

    def lose_connections(self) -> None:
        with self.server.changed:
            self.server.faults["poll"] += [None, (502, "Bad Gateway")]
            self.server.polls.clear()
            self.server.changed.notify_all()

    def lose_next_send(self) -> None:
        self.server.faults["send"].append(None)

    def shown(self) -> list[Shown]:
        return [
            Shown(sent["chat"], message_id, sent["text"].replace("**", ""), sent["topic"])
            for message_id, sent in self.server.sent.items()
        ]

    def is_confirmed(self, message_id: str) -> bool:
        return self._numbers[message_id] not in self.server.pending

    def has_unconfirmed(self) -> bool:
        return bool(self.server.pending)

    def wait_until(self, condition: Callable[[], Any]) -> None:
        self.server.wait_for(condition)

    def close(self) -> None:
        self.server.close()


@pytest.fixture
def messenger(installed: Path) -> Iterator[PigeonMessenger]:
    messenger = PigeonMessenger()
    yield messenger
    messenger.close()
