"""An adapter at work."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hermes_sessions.gateway.events import Target
from hermes_sessions.testing.discord_server import ANNA
from hermes_sessions.testing.platforms import RecordingServices
from tests.gateway.platforms.discord.fake_discord import DiscordWorld


class Scene:
    def __init__(self, world: DiscordWorld, services: RecordingServices, **changes: Any) -> None:
        self.world = world
        self.server = world.server
        self.services = services
        self.adapter = world.make_adapter(**changes)

    @property
    def private(self) -> Target:
        """Anna's private channel."""
        return Target("discord", self.server.state.direct_channel(ANNA))

    async def until(self, condition: Callable[[], Any]) -> None:
        """Return when something is the case."""
        await asyncio.to_thread(self.server.wait_for, condition)


def play(
    world: DiscordWorld,
    act: Callable[[Scene], Awaitable[None]],
    services: RecordingServices | None = None,
    **changes: Any,
) -> None:
    async def main() -> None:
        found = services if services is not None else RecordingServices(world.states)
        scene = Scene(world, found, **changes)
        await scene.adapter.connect(scene.services)
        try:
            await act(scene)
        finally:
            await scene.adapter.disconnect()

    asyncio.run(main())
