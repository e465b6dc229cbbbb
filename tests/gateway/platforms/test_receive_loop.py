"""The stop signal of adapters."""

from __future__ import annotations

import asyncio

import pytest

from hermes_sessions.gateway.platforms.receive_loop import Stopped, StopSignal


def test_nothing_begins_after_the_end() -> None:
    """However quickly it would be over: what is tried until it works would be tried for ever."""
    begun = []

    async def begin() -> None:
        begun.append("it")

    async def main() -> None:
        ending = StopSignal()
        assert await ending.result_unless_stopped(begin()) is None
        ending.ask()
        with pytest.raises(Stopped):
            await ending.result_unless_stopped(begin())
        await ending.pause(lambda _seconds: begin(), 60)

    asyncio.run(main())
    assert begun == ["it"]


def test_what_is_there_when_the_end_comes_is_not_lost() -> None:
    async def main() -> None:
        ending = StopSignal()
        brought: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def both() -> None:
            ending.ask()
            brought.set_result("a message")

        asyncio.get_running_loop().call_soon(both)
        assert await ending.result_unless_stopped(brought) == "a message"

    asyncio.run(main())
