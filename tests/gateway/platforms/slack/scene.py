"""An adapter at work, and a client that calls its webhook as anybody could."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx

from hermes_sessions.testing.platforms import RecordingServices
from tests.gateway.platforms.slack.fake_slack import SlackWorld


class Scene:
    def __init__(self, world: SlackWorld, **changes: Any) -> None:
        self.world = world
        self.server = world.server
        self.services = RecordingServices(world.states)
        self.adapter = world.make_adapter(**changes)
        self.http = httpx.AsyncClient()

    @property
    def url(self) -> str:
        return self.world.url()

    def call(self, text: str = "Hello", **fields: Any) -> dict[str, Any]:
        return self.server.envelop(self.server.event(text, **fields))

    async def bring(self, content: Any, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Bring something, signed as Slack does unless other headers are given."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return await self.http.post(
            self.url, content=body, headers=headers or self.server.headers_for(body)
        )

    async def until(self, condition: Callable[[], Any]) -> None:
        """Return when something is the case on Slack."""
        await asyncio.to_thread(self.server.wait_for, condition)

    async def hear(self, count: int) -> list[str]:
        """Return what was said, when so much has been, and all is confirmed."""
        texts = await self.services.texts(count)
        await self.until(lambda: not self.server.waiting)
        return texts


def play(world: SlackWorld, act: Callable[[Scene], Awaitable[None]], **changes: Any) -> None:
    async def main() -> None:
        scene = Scene(world, **changes)
        await scene.adapter.connect(scene.services)
        try:
            await act(scene)
        finally:
            await scene.http.aclose()
            await scene.adapter.disconnect()

    asyncio.run(main())
