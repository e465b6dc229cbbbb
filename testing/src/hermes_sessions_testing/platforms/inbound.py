"""Nothing is lost between the platform and the gateway."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from hermes_sessions.errors import InvalidInput, StoreUnavailable
from hermes_sessions.gateway.platforms.port import Unreachable
from hermes_sessions_testing.platforms.harness import (
    AdapterHarness,
    PlatformWorld,
    RecordingServices,
    run_connected,
)

#: A guard against hanging, not a measurement.
_PATIENCE: Final = 60.0


class TestReceiving:
    """A message is confirmed when the gateway has it, and not before."""

    def test_messages_arrive_in_order(self, world: PlatformWorld) -> None:
        """However many come at once."""

        async def steps(harness: AdapterHarness) -> None:
            written = [f"message {number}" for number in range(30)]
            for text in written:
                world.write(text)
            assert await harness.services.texts(30) == written

        run_connected(world, steps)

    def test_what_is_taken_is_confirmed(self, world: PlatformWorld) -> None:
        """So that it does not come again."""

        async def steps(harness: AdapterHarness) -> None:
            message_id = world.write("Hello")
            await harness.services.texts(1)
            await harness.until(lambda: world.is_confirmed(message_id))
            assert len(harness.services.accepted) == 1

        run_connected(world, steps)

    @pytest.mark.parametrize(
        "error", [Unreachable("no"), StoreUnavailable("no"), RuntimeError("no")], ids=repr
    )
    def test_what_cannot_be_stored_comes_again(
        self, world: PlatformWorld, error: Exception
    ) -> None:
        """Nothing is confirmed that is not stored, and those behind it wait."""

        async def steps(harness: AdapterHarness) -> None:
            harness.services.fail_with(error, error)
            first = world.write("first")
            await harness.services.wait_for(lambda: harness.services.offered)
            assert not world.is_confirmed(first)
            second = world.write("second")
            assert await harness.services.texts(2) == ["first", "second"]
            assert [each.text for each in harness.services.offered][:3] == ["first"] * 3
            await harness.until(lambda: world.is_confirmed(first) and world.is_confirmed(second))

        run_connected(world, steps)

    def test_what_the_gateway_cannot_use_is_confirmed(self, world: PlatformWorld) -> None:
        """It would be refused for ever, and those behind it would wait as long."""

        async def steps(harness: AdapterHarness) -> None:
            harness.services.fail_with(InvalidInput("too long"))
            world.write("bad")
            world.write("good")
            assert await harness.services.texts(1) == ["good"]

        run_connected(world, steps)

    def test_a_second_delivery_is_recognisable(self, world: PlatformWorld) -> None:
        """The gateway ignores it by the id, which is the same."""

        async def steps(harness: AdapterHarness) -> None:
            message_id = world.write("Hello")
            await harness.services.texts(1)
            await harness.until(lambda: world.is_confirmed(message_id))
            world.deliver_again(message_id)
            await harness.services.texts(2)
            first, second = harness.services.accepted
            assert (first.message_id, first.source) == (second.message_id, second.source)

        run_connected(world, steps)

    def test_unreadable_payloads_are_survived(self, world: PlatformWorld) -> None:
        """They are skipped and confirmed; what comes after them arrives."""

        async def steps(harness: AdapterHarness) -> None:
            world.deliver_unreadable()
            assert (await harness.hear("still there")).text == "still there"
            await harness.until(lambda: not world.has_unconfirmed())
            assert await harness.services.texts(1) == ["still there"]

        run_connected(world, steps)

    def test_a_lost_connection_is_made_again(self, world: PlatformWorld) -> None:
        """By the adapter itself, and what was written meanwhile arrives."""

        async def steps(harness: AdapterHarness) -> None:
            await harness.hear("before")
            for number in range(3):
                world.lose_connections()
                await harness.hear(f"after {number}")
            # The last one may have come just before its connection was lost.
            await harness.until_connected()

        run_connected(world, steps)

    def test_what_comes_while_nobody_listens_arrives_later(self, world: PlatformWorld) -> None:
        """A restart loses nothing, and nothing that was taken comes again."""
        run_connected(world, lambda harness: harness.hear("first"))  # type: ignore[arg-type, return-value]
        world.write("second")

        async def steps(harness: AdapterHarness) -> None:
            assert await harness.services.texts(1) == ["second"]

        run_connected(world, steps)

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

        async def steps(harness: AdapterHarness) -> None:
            assert await harness.services.texts(1) == ["Hello"]

        run_connected(world, steps)
