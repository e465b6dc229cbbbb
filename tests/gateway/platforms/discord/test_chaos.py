"""Connections that break, sessions that end, stores that fail, processes that die: in any order."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

import pytest

from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.discord.adapter import DiscordAdapter
from hermes_sessions.gateway.platforms.port import Unreachable
from hermes_sessions_testing.fake_servers.discord.server import ANNA, BERT, GENERAL, PUMPS, THREAD
from hermes_sessions_testing.platforms import RecordingServices
from tests.gateway.platforms.discord.fake_discord import FakeDiscord

STEPS = 60


class Storm:
    """One bot after the other, and what all of them took."""

    def __init__(self, messenger: FakeDiscord, seed: int) -> None:
        self.messenger = messenger
        self.random = random.Random(seed)
        self.written = 0
        self.taken: list[Inbound] = []
        self._adapter: DiscordAdapter | None = None
        self._services = RecordingServices()

    async def begin(self) -> None:
        self._services = RecordingServices(self.messenger.states)
        self._adapter = self.messenger.make_adapter()
        while True:
            try:
                await self._adapter.connect(self._services)
            except Unreachable:
                await asyncio.sleep(0)
            else:
                return

    async def end(self, *, is_crash: bool = False) -> None:
        adapter = self._adapter
        assert adapter is not None
        if is_crash and adapter._listening and adapter._storing:
            # What a killed process leaves behind: nothing is finished, nothing is flushed.
            tasks = {adapter._listening, adapter._storing}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            adapter._listening = adapter._storing = None
        await adapter.disconnect()
        self.taken += self._services.accepted
        self._services.accepted = []

    def write(self) -> None:
        user = self.random.choice([ANNA, BERT])
        channel = self.random.choice([None, GENERAL, PUMPS, THREAD])
        self.messenger.server.write(
            "x", user=user, channel=channel, is_addressed=channel is not None
        )
        self.written += 1

    async def strike(self) -> None:
        server, choose = self.messenger.server, self.random
        match choose.choice(
            ["write"] * 6 + ["drop", "forget", "op7", "op9", "cut", "store", "restart"]
        ):
            case "write":
                for _ in range(choose.randrange(1, 6)):
                    self.write()
            case "drop":
                server.drop()
            case "forget":
                server.drop(forget=True)
            case "op7":
                server.ask_to_reconnect()
            case "op9":
                server.invalidate()
            case "cut":
                server.cut(choose.choice(["connect", "history", "gateway"]), times=2)
            case "store":
                self._services.fail_with(*[StoreUnavailable("no")] * choose.randrange(1, 4))
            case _:
                await self.end(is_crash=choose.random() < 0.5)
                self.write()
                await self.begin()

    def ids(self) -> set[str | None]:
        return {each.message_id for each in (*self.taken, *self._services.accepted)}

    async def settle(self) -> None:
        await self._services.wait_for(lambda: len(self.ids()) >= self.written)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_and_nothing_overtakes(messenger: FakeDiscord, seed: int) -> None:
    async def main() -> Storm:
        storm = Storm(messenger, seed)
        await storm.begin()
        # Private chats are known by what was said in them: see docs/discord.md.
        for user in (ANNA, BERT):
            messenger.server.write("first", user=user)
            storm.written += 1
        await storm.settle()
        for _ in range(STEPS):
            await storm.strike()
        await storm.settle()
        await storm.end()
        return storm

    storm = asyncio.run(main())
    firsts: dict[str | None, Inbound] = {}
    for inbound in storm.taken:
        firsts.setdefault(inbound.message_id, inbound)
    assert len(firsts) == storm.written
    orders: defaultdict[str, list[int]] = defaultdict(list)
    for message_id, inbound in firsts.items():
        orders[inbound.source.thread_id or inbound.source.chat_id].append(int(message_id or 0))
    for order in orders.values():
        assert order == sorted(order)
