"""An adapter at work, and a client that calls its webhook as anybody could."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from hermes_sessions.gateway.platforms.whatsapp.webhook import SIGNATURE_HEADER
from hermes_sessions.testing.platforms import RecordingServices
from tests.gateway.platforms.whatsapp.fake_whatsapp import WhatsAppWorld


class Scene:
    def __init__(self, world: WhatsAppWorld, **changes: Any) -> None:
        self.world = world
        self.server = world.server
        self.services = RecordingServices()
        self.adapter = world.make_adapter(**changes)
        self.http = httpx.AsyncClient()

    @property
    def url(self) -> str:
        return self.world.url()

    def call(self, text: str = "Hello", **fields: Any) -> dict[str, Any]:
        return self.server.call(self.server.value([self.server.message(text, **fields)]))

    async def bring(self, content: Any, signature: str | None = None) -> int:
        """Bring something, signed as Meta does unless another signature is given."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        headers = {SIGNATURE_HEADER: self.server.sign(body) if signature is None else signature}
        return (await self.http.post(self.url, content=body, headers=headers)).status_code


def play(world: WhatsAppWorld, act: Callable[[Scene], Awaitable[None]], **changes: Any) -> None:
    async def main() -> None:
        scene = Scene(world, **changes)
        await scene.adapter.connect(scene.services)
        try:
            await act(scene)
        finally:
            await scene.http.aclose()
            await scene.adapter.disconnect()

    asyncio.run(main())
