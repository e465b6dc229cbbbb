"""Connecting and disconnecting."""

from __future__ import annotations

import asyncio

import pytest

from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.port import LoginRefused, PlatformError
from hermes_sessions_testing.platforms.harness import MessengerServer, RecordingServices


class TestConnecting:
    """An adapter reports whether it is connected, and can disconnect at any time."""

    def test_it_says_whether_it_is_connected(self, messenger: MessengerServer) -> None:
        """`is_connected` is False, True and False before, during and after a connection."""

        async def main() -> None:
            adapter = messenger.make_adapter()
            seen = [adapter.is_connected]
            await adapter.connect(RecordingServices(messenger.states))
            seen.append(adapter.is_connected)
            await adapter.disconnect()
            seen.append(adapter.is_connected)
            assert seen == [False, True, False]

        asyncio.run(main())

    def test_disconnecting_twice(self, messenger: MessengerServer) -> None:
        """Disconnecting is allowed twice, and without a connection."""

        async def main() -> None:
            adapter = messenger.make_adapter()
            await adapter.disconnect()
            await adapter.connect(RecordingServices(messenger.states))
            await adapter.disconnect()
            await adapter.disconnect()

        asyncio.run(main())

    def test_connecting_again(self, messenger: MessengerServer) -> None:
        """The same adapter can connect and receive again."""

        async def main() -> None:
            adapter = messenger.make_adapter()
            for text in ("first", "second"):
                services = RecordingServices(messenger.states)
                await adapter.connect(services)
                messenger.write(text)
                assert await services.texts(1) == [text]
                await adapter.disconnect()

        asyncio.run(main())

    def test_wrong_credentials(self, messenger: MessengerServer) -> None:
        """`connect` raises `LoginRefused` at once and leaves no connection open."""
        messenger.refuse_logins()

        async def main() -> None:
            adapter = messenger.make_adapter()
            with pytest.raises(LoginRefused):
                await adapter.connect(RecordingServices(messenger.states))
            assert not adapter.is_connected
            await adapter.disconnect()

        asyncio.run(main())

    def test_sending_without_being_connected(self, messenger: MessengerServer) -> None:
        """`send` raises a `PlatformError`."""

        async def main() -> None:
            adapter = messenger.make_adapter()
            with pytest.raises(PlatformError):
                await adapter.send(Target(adapter.name, "1"), "Hi", key="k")

        asyncio.run(main())
