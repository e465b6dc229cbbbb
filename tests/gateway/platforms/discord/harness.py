"""A gateway at work on Discord: a real store, Discord's protocol and a model's, over sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hermes_sessions.gateway.events import Target
from hermes_sessions_testing.fake_servers.discord.server import ANNA, DiscordServer
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.harness import GatewayHarness
from tests.gateway.platforms.discord.fake_discord import FakeDiscord

# An adapter at work.


class AdapterHarness:
    def __init__(self, messenger: FakeDiscord, services: RecordingServices, **changes: Any) -> None:
        self.messenger = messenger
        self.server = messenger.server
        self.services = services
        self.adapter = messenger.make_adapter(**changes)

    @property
    def private(self) -> Target:
        """Anna's private channel."""
        return Target("discord", self.server.state.direct_channel(ANNA))

    async def until(self, condition: Callable[[], Any]) -> None:
        """Return when something is the case."""
        await asyncio.to_thread(self.server.wait_for, condition)


def run_adapter(
    messenger: FakeDiscord,
    act: Callable[[AdapterHarness], Awaitable[None]],
    services: RecordingServices | None = None,
    **changes: Any,
) -> None:
    async def main() -> None:
        found = services if services is not None else RecordingServices(messenger.states)
        harness = AdapterHarness(messenger, found, **changes)
        await harness.adapter.connect(harness.services)
        try:
            await act(harness)
        finally:
            await harness.adapter.disconnect()

    asyncio.run(main())


class DiscordHarness(GatewayHarness):
    """Discord, a model, and gateways that come and go on one store."""

    def __init__(self, home: Path) -> None:
        self.discord = DiscordServer()
        self.platform: dict[str, Any] = {
            "token": self.discord.token,
            "base_url": self.discord.base_url,
            "allowed_users": [ANNA["id"]],
            "messages_per_minute": 0,
        }
        super().__init__(home, {"discord": self.platform})

    @property
    def private(self) -> str:
        """Anna's private channel."""
        return self.discord.state.direct_channel(ANNA)

    def close_messengers(self) -> None:
        self.discord.close()

    def replies(self, channel_id: str | None = None) -> list[str]:
        """What the bot has said in a channel, or to Anna in private."""
        where = channel_id or self.private
        return [sent.text for sent in self.discord.sent if sent.channel_id == where]

    def wait_for_replies(self, count: int, channel_id: str | None = None) -> list[str]:
        """Return what the bot has said, once that is so many messages."""
        self.discord.wait_for(lambda: len(self.replies(channel_id)) >= count)
        return self.replies(channel_id)
