"""A messenger in memory that records what it sends and fails on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.port import Adapter, Limits, Services, Undeliverable


class FakeAdapter(Adapter):
    """Knows every message by its number."""

    name: ClassVar[str] = "telegram"
    limits: ClassVar[Limits] = Limits(text=40, edits=True)

    def __init__(self) -> None:
        #: What people see, by chat.
        self.chats: dict[str, list[str]] = {}
        self.keys: list[str] = []
        self.connected = True
        #: What is raised by the next calls, one each.
        self.failures: list[Exception] = []
        self.before_send: Callable[[Target, str], None] = lambda _target, _text: None
        self._services: Services | None = None

    async def connect(self, services: Services) -> None:
        self._services = services
        self.connected = True

    async def disconnect(self) -> None:
        self.connected = False

    @property
    def is_connected(self) -> bool:
        return self.connected

    async def send(self, target: Target, text: str, *, key: str) -> str:
        self._fail()
        self.before_send(target, text)
        chat = self.chats.setdefault(target.chat_id, [])
        chat.append(text)
        self.keys.append(key)
        return f"{target.chat_id}/{len(chat) - 1}"

    async def edit(self, target: Target, message_id: str, text: str) -> None:
        self._fail()
        chat, _, number = message_id.partition("/")
        if int(number) >= len(self.chats.get(chat, ())):
            raise Undeliverable("There is no such message.")
        self.chats[target.chat_id][int(number)] = text

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
