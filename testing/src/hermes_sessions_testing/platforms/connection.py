"""Coming and going."""

from __future__ import annotations

import asyncio

import pytest

from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.port import LoginRefused, PlatformError
from hermes_sessions_testing.platforms.harness import PlatformWorld, RecordingServices


class TestConnecting:
    """An adapter says whether it is connected, and can be disconnected at any time."""

    def test_it_says_whether_it_is_connected(self, world: PlatformWorld) -> None:
        """Before, during and after."""

        async def main() -> None:
            adapter = world.make_adapter()
            seen = [adapter.is_connected]
            await adapter.connect(RecordingServices(world.states))
            seen.append(adapter.is_connected)
            await adapter.disconnect()
            seen.append(adapter.is_connected)
            assert seen == [False, True, False]

        asyncio.run(main())

    def test_disconnecting_twice(self, world: PlatformWorld) -> None:
        """Is no error, nor is it without having been connected."""

        async def main() -> None:
            adapter = world.make_adapter()
            await adapter.disconnect()
            await adapter.connect(RecordingServices(world.states))
            await adapter.disconnect()
            await adapter.disconnect()

        asyncio.run(main())

    def test_connecting_again(self, world: PlatformWorld) -> None:
        """The same adapter receives as before."""

        async def main() -> None:
            adapter = world.make_adapter()
            for text in ("first", "second"):
                services = RecordingServices(world.states)
                await adapter.connect(services)
                world.write(text)
                assert await services.texts(1) == [text]
                await adapter.disconnect()

        asyncio.run(main())

    def test_wrong_credentials(self, world: PlatformWorld) -> None:
        """Are said at once, and nothing is left open."""
        world.refuse_logins()

        async def main() -> None:
            adapter = world.make_adapter()
            with pytest.raises(LoginRefused):
                await adapter.connect(RecordingServices(world.states))
            assert not adapter.is_connected
            await adapter.disconnect()

        asyncio.run(main())

    def test_sending_without_being_connected(self, world: PlatformWorld) -> None:
        """Is an error that the gateway knows."""

        async def main() -> None:
            adapter = world.make_adapter()
            with pytest.raises(PlatformError):
                await adapter.send(Target(adapter.name, "1"), "Hi", key="k")

        asyncio.run(main())
