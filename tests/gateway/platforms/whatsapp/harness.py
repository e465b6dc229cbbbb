"""A gateway at work on WhatsApp: a real store, Meta's protocol and a model's, over sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from hermes_sessions.gateway.platforms.whatsapp.adapter import WhatsAppAdapter
from hermes_sessions.gateway.platforms.whatsapp.webhook import SIGNATURE_HEADER
from hermes_sessions_testing.fake_servers.whatsapp.server import ANNA, WhatsAppServer
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.harness import GatewayHarness
from tests.gateway.platforms.whatsapp.fake_whatsapp import VERIFY_TOKEN, FakeWhatsApp

# An adapter at work, and a client that calls its webhook as anybody could.


class AdapterHarness:
    def __init__(self, messenger: FakeWhatsApp, **changes: Any) -> None:
        self.messenger = messenger
        self.server = messenger.server
        self.services = RecordingServices()
        self.adapter = messenger.make_adapter(**changes)
        self.http = httpx.AsyncClient()

    @property
    def url(self) -> str:
        return self.messenger.url()

    def call(self, text: str = "Hello", **fields: Any) -> dict[str, Any]:
        return self.server.call(self.server.value([self.server.message(text, **fields)]))

    async def bring(self, content: Any, signature: str | None = None) -> int:
        """Bring something, signed as Meta does unless another signature is given."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        headers = {SIGNATURE_HEADER: self.server.sign(body) if signature is None else signature}
        return (await self.http.post(self.url, content=body, headers=headers)).status_code


def run_adapter(
    messenger: FakeWhatsApp, act: Callable[[AdapterHarness], Awaitable[None]], **changes: Any
) -> None:
    async def main() -> None:
        harness = AdapterHarness(messenger, **changes)
        await harness.adapter.connect(harness.services)
        try:
            await act(harness)
        finally:
            await harness.http.aclose()
            await harness.adapter.disconnect()

    asyncio.run(main())


class WhatsAppHarness(GatewayHarness):
    """WhatsApp, a model, and gateways that come and go on one store."""

    def __init__(self, home: Path) -> None:
        self.whatsapp = WhatsAppServer()
        self.whatsapp.callback = self._url
        section = {
            "token": self.whatsapp.token,
            "phone_number_id": self.whatsapp.phone_number_id,
            "app_secret": self.whatsapp.app_secret,
            "verify_token": VERIFY_TOKEN,
            "base_url": self.whatsapp.base_url,
            "allowed_users": [ANNA.number, ANNA.user_id],
            "messages_per_minute": 0,
            "webhook": {"port": 0},
        }
        super().__init__(home, {"whatsapp": section})

    def close_messengers(self) -> None:
        self.whatsapp.close()

    def _url(self) -> str:
        adapter = self.adapter("whatsapp")
        port = adapter.webhook_port if isinstance(adapter, WhatsAppAdapter) else None
        return f"http://127.0.0.1:{port}/whatsapp" if port else ""

    def replies(self, chat_id: str = ANNA.id) -> list[str]:
        """What the number has said in a chat."""
        return [sent.text for sent in self.whatsapp.sent if sent.chat_id == chat_id]

    def wait_for_replies(self, count: int, chat_id: str = ANNA.id) -> list[str]:
        """Return what the number has said, once that is so many messages."""
        self.whatsapp.wait_for(lambda: len(self.replies(chat_id)) >= count)
        return self.replies(chat_id)
