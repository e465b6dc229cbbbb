"""A play: an adapter, connected to a world and to a gateway that remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from hermes_sessions.gateway.events import Inbound, Target
from hermes_sessions.gateway.platforms.port import Adapter
from hermes_sessions.testing.platforms.harness import PlatformWorld, Room, Sender
from hermes_sessions.testing.platforms.services import RecordingServices

_PATIENCE: Final = 60.0


class Play:
    """What a test needs; the adapter is connected."""

    def __init__(self, world: PlatformWorld, adapter: Adapter) -> None:
        self.world = world
        self.adapter = adapter
        self.services = RecordingServices(world.states)

    async def hear(
        self, text: str = "Hello", *, sender: Sender = "anna", room: Room = "private"
    ) -> Inbound:
        """Let somebody write and return the message as the gateway got it."""
        before = len(self.services.accepted)
        self.world.write(text, sender=sender, room=room)
        await self.services.wait_for(lambda: len(self.services.accepted) > before)
        return self.services.accepted[-1]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Return when something is the case in the world."""
        await asyncio.to_thread(self.world.wait_until, condition)

    async def until_connected(self) -> None:
        """Return when the adapter is connected."""
        async with asyncio.timeout(_PATIENCE):
            while not self.adapter.is_connected:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)


def perform(world: PlatformWorld, scene: Callable[[Play], Awaitable[None]]) -> None:
    """Run *scene* with a connected adapter, which is disconnected afterwards."""

    async def main() -> None:
        play = Play(world, world.make_adapter())
        await play.adapter.connect(play.services)
        try:
            await scene(play)
        finally:
            await play.adapter.disconnect()

    asyncio.run(main())


def answer_to(inbound: Inbound) -> Target:
    """Return where an answer to a message goes."""
    source = inbound.source
    return Target(source.platform.value, source.chat_id, source.thread_id, inbound.message_id)
