"""Receiving: no message is lost between the platform and the gateway."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from hermes_sessions.errors import InvalidInput, StoreUnavailable
from hermes_sessions.gateway.platforms.port import Unreachable
from hermes_sessions_testing.platforms.harness import (
    AdapterHarness,
    MessengerServer,
    RecordingServices,
    run_connected,
)

#: A guard against hanging, not a measurement.
_PATIENCE: Final = 60.0


class TestReceiving:
    """A message is confirmed after the gateway has stored it, and not before."""

    def test_messages_arrive_in_order(self, messenger: MessengerServer) -> None:
        """Many messages at once arrive in the order in which they were written."""

        async def steps(harness: AdapterHarness) -> None:
            written = [f"message {number}" for number in range(30)]
            for text in written:
                messenger.write(text)
            assert await harness.services.texts(30) == written

        run_connected(messenger, steps)

    def test_an_accepted_message_is_confirmed(self, messenger: MessengerServer) -> None:
        """The platform does not deliver it again."""

        async def steps(harness: AdapterHarness) -> None:
            message_id = messenger.write("Hello")
            await harness.services.texts(1)
            await harness.until(lambda: messenger.is_confirmed(message_id))
            assert len(harness.services.accepted) == 1

        run_connected(messenger, steps)

    @pytest.mark.parametrize(
        "error", [Unreachable("no"), StoreUnavailable("no"), RuntimeError("no")], ids=repr
    )
    def test_a_message_that_cannot_be_stored_is_retried(
        self, messenger: MessengerServer, error: Exception
    ) -> None:
        """It stays unconfirmed, and later messages wait behind it."""

        async def steps(harness: AdapterHarness) -> None:
            harness.services.fail_with(error, error)
            first = messenger.write("first")
            await harness.services.wait_for(lambda: harness.services.offered)
            assert not messenger.is_confirmed(first)
            second = messenger.write("second")
            assert await harness.services.texts(2) == ["first", "second"]
            assert [each.text for each in harness.services.offered][:3] == ["first"] * 3
            await harness.until(
                lambda: messenger.is_confirmed(first) and messenger.is_confirmed(second)
            )

        run_connected(messenger, steps)

    def test_a_message_that_the_gateway_rejects_is_confirmed(
        self, messenger: MessengerServer
    ) -> None:
        """Or it would be rejected for ever and block the messages behind it."""

        async def steps(harness: AdapterHarness) -> None:
            harness.services.fail_with(InvalidInput("too long"))
            messenger.write("bad")
            messenger.write("good")
            assert await harness.services.texts(1) == ["good"]

        run_connected(messenger, steps)

    def test_a_second_delivery_is_recognisable(self, messenger: MessengerServer) -> None:
        """It has the same id and source, by which the gateway ignores it."""

        async def steps(harness: AdapterHarness) -> None:
            message_id = messenger.write("Hello")
            await harness.services.texts(1)
            await harness.until(lambda: messenger.is_confirmed(message_id))
            messenger.deliver_again(message_id)
            await harness.services.texts(2)
            first, second = harness.services.accepted
            assert (first.message_id, first.source) == (second.message_id, second.source)

        run_connected(messenger, steps)

    def test_unreadable_payloads_are_skipped(self, messenger: MessengerServer) -> None:
        """They are confirmed, and later messages arrive."""

        async def steps(harness: AdapterHarness) -> None:
            messenger.deliver_unreadable()
            assert (await harness.hear("still there")).text == "still there"
            await harness.until(lambda: not messenger.has_unconfirmed())
            assert await harness.services.texts(1) == ["still there"]

        run_connected(messenger, steps)

    def test_a_lost_connection_is_made_again(self, messenger: MessengerServer) -> None:
        """The adapter reconnects by itself, and messages written meanwhile arrive."""

        async def steps(harness: AdapterHarness) -> None:
            await harness.hear("before")
            for number in range(3):
                messenger.lose_connections()
                await harness.hear(f"after {number}")
            # The last one may have come just before its connection was lost.
            await harness.until_connected()

        run_connected(messenger, steps)

    def test_messages_written_while_disconnected_arrive_later(
        self, messenger: MessengerServer
    ) -> None:
        """A restart loses no message and delivers no confirmed one again."""
        run_connected(messenger, lambda harness: harness.hear("first"))  # type: ignore[arg-type, return-value]
        messenger.write("second")

        async def steps(harness: AdapterHarness) -> None:
            assert await harness.services.texts(1) == ["second"]

        run_connected(messenger, steps)

    def test_disconnecting_waits_for_the_message_in_progress(
        self, messenger: MessengerServer
    ) -> None:
        """The message is stored and confirmed before `disconnect` returns."""

        async def main() -> None:
            adapter, services = messenger.make_adapter(), RecordingServices(messenger.states)
            gate = services.hold()
            await adapter.connect(services)
            message_id = messenger.write("Hello")
            await services.wait_for(lambda: services.offered)
            leaving = asyncio.create_task(adapter.disconnect())
            await asyncio.sleep(0)
            gate.set()
            await leaving
            assert [each.text for each in services.accepted] == ["Hello"]
            await asyncio.to_thread(
                messenger.wait_until, lambda: messenger.is_confirmed(message_id)
            )

        asyncio.run(main())

    @pytest.mark.parametrize("error", [Unreachable("no"), RuntimeError("no")], ids=repr)
    def test_disconnecting_while_nothing_can_be_stored(
        self, messenger: MessengerServer, error: Exception
    ) -> None:
        """`disconnect` returns; the unconfirmed message arrives after the next `connect`."""

        async def main() -> None:
            adapter, services = messenger.make_adapter(), RecordingServices(messenger.states)
            gate = services.hold()
            services.keep_failing_with(error)
            await adapter.connect(services)
            message_id = messenger.write("Hello")
            await services.wait_for(lambda: services.offered)
            leaving = asyncio.create_task(adapter.disconnect())
            await asyncio.sleep(0)
            gate.set()
            async with asyncio.timeout(_PATIENCE):
                await leaving
            assert not messenger.is_confirmed(message_id)

        asyncio.run(main())

        async def steps(harness: AdapterHarness) -> None:
            assert await harness.services.texts(1) == ["Hello"]

        run_connected(messenger, steps)
