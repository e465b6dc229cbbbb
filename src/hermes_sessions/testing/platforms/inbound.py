"""Nothing is lost between the platform and the gateway."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from hermes_sessions.errors import InvalidInput, StoreUnavailable
from hermes_sessions.gateway.platforms.port import Unreachable
from hermes_sessions.testing.platforms.harness import (
    PlatformWorld,
    Play,
    RecordingServices,
    perform,
)

#: A guard against hanging, not a measurement.
_PATIENCE: Final = 60.0


class TestReceiving:
    """A message is confirmed when the gateway has it, and not before."""

    def test_messages_arrive_in_order(self, world: PlatformWorld) -> None:
        """However many come at once."""

        async def scene(play: Play) -> None:
            written = [f"message {number}" for number in range(30)]
            for text in written:
                world.write(text)
            assert await play.services.texts(30) == written

        perform(world, scene)

    def test_what_is_taken_is_confirmed(self, world: PlatformWorld) -> None:
        """So that it does not come again."""

        async def scene(play: Play) -> None:
            message_id = world.write("Hello")
            await play.services.texts(1)
            await play.until(lambda: world.is_confirmed(message_id))
            assert len(play.services.accepted) == 1

        perform(world, scene)

    @pytest.mark.parametrize(
        "error", [Unreachable("no"), StoreUnavailable("no"), RuntimeError("no")], ids=repr
    )
    def test_what_cannot_be_stored_comes_again(
        self, world: PlatformWorld, error: Exception
    ) -> None:
        """Nothing is confirmed that is not stored, and those behind it wait."""

        async def scene(play: Play) -> None:
            play.services.fail_with(error, error)
            first = world.write("first")
            await play.services.wait_for(lambda: play.services.offered)
            assert not world.is_confirmed(first)
            second = world.write("second")
            assert await play.services.texts(2) == ["first", "second"]
            assert [each.text for each in play.services.offered][:3] == ["first"] * 3
            await play.until(lambda: world.is_confirmed(first) and world.is_confirmed(second))

        perform(world, scene)

    def test_what_the_gateway_cannot_use_is_confirmed(self, world: PlatformWorld) -> None:
        """It would be refused for ever, and those behind it would wait as long."""

        async def scene(play: Play) -> None:
            play.services.fail_with(InvalidInput("too long"))
            world.write("bad")
            world.write("good")
            assert await play.services.texts(1) == ["good"]

        perform(world, scene)

    def test_a_second_delivery_is_recognisable(self, world: PlatformWorld) -> None:
        """The gateway ignores it by the id, which is the same."""

        async def scene(play: Play) -> None:
            message_id = world.write("Hello")
            await play.services.texts(1)
            await play.until(lambda: world.is_confirmed(message_id))
            world.deliver_again(message_id)
            await play.services.texts(2)
            first, second = play.services.accepted
            assert (first.message_id, first.source) == (second.message_id, second.source)

        perform(world, scene)

    def test_unreadable_payloads_are_survived(self, world: PlatformWorld) -> None:
        """They are skipped and confirmed; what comes after them arrives."""

        async def scene(play: Play) -> None:
            world.deliver_unreadable()
            assert (await play.hear("still there")).text == "still there"
            await play.until(lambda: not world.has_unconfirmed())
            assert await play.services.texts(1) == ["still there"]

        perform(world, scene)

    def test_a_lost_connection_is_made_again(self, world: PlatformWorld) -> None:
        """By the adapter itself, and what was written meanwhile arrives."""

        async def scene(play: Play) -> None:
            await play.hear("before")
            for number in range(3):
                world.lose_connections()
                await play.hear(f"after {number}")
            # The last one may have come just before its connection was lost.
            await play.until_connected()

        perform(world, scene)

    def test_what_comes_while_nobody_listens_arrives_later(self, world: PlatformWorld) -> None:
        """A restart loses nothing, and nothing that was taken comes again."""
        perform(world, lambda play: play.hear("first"))  # type: ignore[arg-type, return-value]
        world.write("second")

        async def scene(play: Play) -> None:
            assert await play.services.texts(1) == ["second"]

        perform(world, scene)

    def test_disconnecting_waits_for_what_is_being_taken(self, world: PlatformWorld) -> None:
        """And confirms it."""

        async def main() -> None:
            adapter, services = world.make_adapter(), RecordingServices(world.states)
            gate = services.hold()
            await adapter.connect(services)
            message_id = world.write("Hello")
            await services.wait_for(lambda: services.offered)
            leaving = asyncio.create_task(adapter.disconnect())
            await asyncio.sleep(0)
            gate.set()
            await leaving
            assert [each.text for each in services.accepted] == ["Hello"]
            await asyncio.to_thread(world.wait_until, lambda: world.is_confirmed(message_id))

        asyncio.run(main())

    @pytest.mark.parametrize("error", [Unreachable("no"), RuntimeError("no")], ids=repr)
    def test_disconnecting_while_nothing_can_be_stored(
        self, world: PlatformWorld, error: Exception
    ) -> None:
        """Ends all the same, and confirms nothing: it comes again."""

        async def main() -> None:
            adapter, services = world.make_adapter(), RecordingServices(world.states)
            gate = services.hold()
            services.keep_failing_with(error)
            await adapter.connect(services)
            message_id = world.write("Hello")
            await services.wait_for(lambda: services.offered)
            leaving = asyncio.create_task(adapter.disconnect())
            await asyncio.sleep(0)
            gate.set()
            async with asyncio.timeout(_PATIENCE):
                await leaving
            assert not world.is_confirmed(message_id)

        asyncio.run(main())

        async def scene(play: Play) -> None:
            assert await play.services.texts(1) == ["Hello"]

        perform(world, scene)
