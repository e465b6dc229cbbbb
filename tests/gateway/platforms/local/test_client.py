"""The client of the local socket, with a gateway at work: it comes back, nothing comes twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from hermes_sessions.gateway.platforms.local.socket_client import (
    ConnectionRefused,
    Event,
    LocalClient,
)
from hermes_sessions_testing.scripted_model import streamed
from tests.gateway.platforms.local.harness import LocalHarness

PATIENCE = 60


class Seen:
    """What a client was shown."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        task = asyncio.get_running_loop().create_task(self._notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def wait_for(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(condition)

    def texts(self, kind: str) -> list[str]:
        return [event.text for event in self.events if event.kind == kind]


async def at_once(_seconds: float) -> None:
    """Wait hardly at all: the other side needs the time."""
    await asyncio.sleep(0.01)


def perform(
    home: LocalHarness, scene: Callable[[LocalClient, Seen], Awaitable[None]], **options: Any
) -> None:
    async def main() -> None:
        seen = Seen()
        client = LocalClient(home.socket, seen, sleep=at_once, **options)
        running = asyncio.create_task(client.run())
        try:
            await scene(client, seen)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(main())


def test_a_talk(home: LocalHarness) -> None:
    home.start()

    async def scene(client: LocalClient, seen: Seen) -> None:
        first = client.say("One")
        await client.settled()
        client.say("Two")
        await client.settled()
        await seen.wait_for(lambda: len(seen.texts("message")) == 2)
        assert seen.texts("message") == ["You said: One", "You said: Two"]
        assert seen.events[0] == Event("connected")
        assert [e.outcome for e in seen.events if e.kind == "taken"] == ["stored", "stored"]
        assert next(e for e in seen.events if e.kind == "text").id == first

    perform(home, scene)
    with home.open_db() as db:
        (session,) = db.list_sessions_rich()
        assert session["source"] == "local"


def test_a_command(home: LocalHarness) -> None:
    home.start()

    async def scene(client: LocalClient, seen: Seen) -> None:
        client.say("/help")
        await client.settled()
        await seen.wait_for(lambda: seen.texts("message"))
        assert "/new" in seen.texts("message")[0]

    perform(home, scene)


def test_what_is_said_before_the_gateway_runs(home: LocalHarness) -> None:
    async def scene(client: LocalClient, seen: Seen) -> None:
        client.say("Hi")
        await asyncio.to_thread(home.start)
        await seen.wait_for(lambda: seen.texts("message"))
        assert seen.texts("message") == ["You said: Hi"]

    perform(home, scene)


def test_a_gateway_that_restarts_while_it_answers(home: LocalHarness) -> None:
    """The client comes back by itself; the message is answered once."""
    home.start()
    gate = home.model.gate()
    home.script.append(streamed("Hello", gate, " there"))

    async def scene(client: LocalClient, seen: Seen) -> None:
        client.say("Hi")
        await seen.wait_for(lambda: seen.texts("text"))
        await asyncio.to_thread(home.stop)
        await seen.wait_for(lambda: Event("lost") in seen.events)
        await asyncio.to_thread(home.start)
        await client.settled()
        await seen.wait_for(lambda: seen.texts("message"))
        outcomes = [event.outcome for event in seen.events if event.kind == "taken"]
        assert outcomes == ["stored", "duplicate"]
        assert len(seen.texts("message")) == 1

    perform(home, scene)
    with home.open_db() as db:
        (session,) = db.list_sessions_rich()
        texts = [row["content"] for row in db.get_messages(session["id"]) if row["role"] == "user"]
        assert texts == ["Hi"]


def test_several_clients_in_one_chat(home: LocalHarness) -> None:
    home.start()

    async def scene(client: LocalClient, seen: Seen) -> None:
        await seen.wait_for(lambda: seen.events)
        other_seen = Seen()
        other = LocalClient(home.socket, other_seen, sleep=at_once)
        running = asyncio.create_task(other.run())
        await other_seen.wait_for(lambda: other_seen.events)
        client.say("Hi")
        for each in (seen, other_seen):
            await each.wait_for(lambda each=each: each.texts("message"))
            assert each.texts("message") == ["You said: Hi"]
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    perform(home, scene)


def test_a_message_with_an_id_that_was_taken(home: LocalHarness) -> None:
    home.start()

    async def scene(client: LocalClient, seen: Seen) -> None:
        client.say("Hi", message_id="m1")
        client.say("Hi", message_id="m2")
        await client.settled()
        client.say("Hi", message_id="m1")
        await client.settled()
        outcomes = [event.outcome for event in seen.events if event.kind == "taken"]
        assert outcomes == ["stored", "stored", "duplicate"]

    perform(home, scene)


def test_a_name_that_cannot_be_is_said_at_once(home: LocalHarness) -> None:
    home.start()

    async def main() -> None:
        client = LocalClient(home.socket, Seen(), chat="a/b")
        with pytest.raises(ConnectionRefused, match="1 to 128 letters"):
            await client.run()

    asyncio.run(main())


def test_without_a_gateway_it_can_end_at_once(home: LocalHarness) -> None:
    async def main() -> None:
        client = LocalClient(home.socket, Seen())
        with pytest.raises(FileNotFoundError):
            await client.run(keep_trying=False)

    asyncio.run(main())
