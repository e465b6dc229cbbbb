"""The connection on which Discord sends events: kept open, resumed, and re-established.

discord.py implements the protocol: hello, heartbeats, identify, resume, compression. When to
reconnect is decided here, with growing pauses while Discord is unavailable, and within Discord's
limit of new sessions per day.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import discord
import yarl
from discord.gateway import DiscordWebSocket, ReconnectWebSocket

from hermes_sessions.gateway.platforms.discord.client import RestClient
from hermes_sessions.gateway.platforms.discord.errors import translated
from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Unreachable,
)
from hermes_sessions.gateway.platforms.receive_loop import Sleep, pause_after

logger = logging.getLogger(__name__)
# The SDK logs messages on that level.
logging.getLogger("discord.gateway").addFilter(lambda record: record.levelno > logging.DEBUG)

#: The requested intents: servers and their channels, messages there and in private, and their
#: contents. No more.
INTENTS: Final = discord.Intents(
    guilds=True, guild_messages=True, dm_messages=True, message_content=True
)

_ARRIVALS: Final = frozenset({"READY", "RESUMED"})
_HELLO_SECONDS: Final = 30.0
_READY_SECONDS: Final = 60.0
_GOODBYE_SECONDS: Final = 2.0
#: A connection that lasted this long resets the pauses.
_STEADY_SECONDS: Final = 60.0
#: Discord allows a new session once in this many seconds, and a thousand per day.
_IDENTIFY_SECONDS: Final = 5.0
_REFUSED_SECONDS: Final = 300.0
#: How often resuming a session is tried before a new one is started.
_RESUMES: Final = 3

#: Handles the data of an event; must not block.
Handler = Callable[[Any], None]


class WebSocketConnection:
    """One connection at a time, for as long as `run` runs."""

    def __init__(
        self,
        client: RestClient,
        handlers: Mapping[str, Handler],
        *,
        unreadable: Callable[[str], None],
        sleep: Sleep,
    ) -> None:
        """*handlers* are by the names of events; *unreadable* gets the reason for a skipped one."""
        self._client = client
        self._handlers = handlers
        self._unreadable = unreadable
        self._sleep = sleep
        self._sdk = discord.Client(intents=INTENTS, max_messages=None)
        self._sdk.http = client.http
        self._sdk.loop = asyncio.get_running_loop()
        # The SDK caches everything it receives, and fails on unexpected data.
        self._sdk._connection.parsers = {
            name: partial(self._take, name) for name in (*_ARRIVALS, *handlers)
        }
        #: The last one; a session in it can be resumed.
        self._socket: DiscordWebSocket | None = None
        self._has_begun = False
        self._was_ready = False
        #: Set while Discord sends events.
        self.is_ready = asyncio.Event()

    async def run(self) -> None:
        """Stay connected until cancelled.

        Raises:
            LoginRefused, Unreachable: the first connection failed.
        """
        failures = 0
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            lost = await self._until_lost()
            if not self._was_ready:
                raise Unreachable(str(lost)) if isinstance(lost, RateLimited) else lost
            failures = 1 if clock() - began > _STEADY_SECONDS else failures + 1
            if failures > _RESUMES:
                self._socket = None
            pause = _pause(lost, failures)
            level = logging.ERROR if isinstance(lost, LoginRefused) else logging.WARNING
            logger.log(level, "discord: %s; retrying in %g s", lost, pause)
            await self._sleep(pause)

    async def _until_lost(self) -> PlatformError:
        """Stay connected; return why the connection ended."""
        try:
            await self._be_connected()
        except PlatformError as error:
            return error
        except Exception as error:
            # An unexpected error must not stop receiving.
            logger.exception("discord: receiving failed")
            return Unreachable(f"Receiving failed: {type(error).__name__}.")
        finally:
            self.is_ready.clear()
        raise AssertionError("a connection ends by being lost")

    async def _be_connected(self) -> None:
        """Connect, and handle events until the connection is lost."""
        earlier = self._socket if self._socket and self._socket.session_id else None
        if earlier is None and self._has_begun:
            await self._sleep(_IDENTIFY_SECONDS)
        address = earlier.gateway if earlier else yarl.URL(await self._client.gateway_address())
        with translated():
            try:
                async with asyncio.timeout(_HELLO_SECONDS):
                    socket = await DiscordWebSocket.from_client(
                        self._sdk,
                        # The SDK would wait before a new session; that is done above.
                        initial=True,
                        gateway=address,
                        session=earlier.session_id if earlier else None,
                        sequence=earlier.sequence if earlier else None,
                        resume=earlier is not None,
                    )
                self._has_begun = True
                self._socket = socket
                await self._listen(socket)
            except ReconnectWebSocket as asked:
                # A session that is over was taken from the socket by the SDK.
                raise Unreachable("the connection was lost") from asked
            except discord.ConnectionClosed:
                self._socket = None
                raise

    async def _listen(self, socket: DiscordWebSocket) -> None:
        try:
            async with asyncio.timeout(_READY_SECONDS) as limit:
                while True:
                    try:
                        await socket.poll_event()
                    except (
                        AttributeError,
                        LookupError,
                        RecursionError,
                        TypeError,
                        ValueError,
                    ) as error:
                        self._unreadable(f"not what Discord documents: {type(error).__name__}")
                    if self.is_ready.is_set():
                        limit.reschedule(None)
        finally:
            await _close(socket)

    def _take(self, name: str, data: Any) -> None:
        """Pass an event to its handler; an unexpected one does no harm."""
        try:
            if handler := self._handlers.get(name):
                handler(data)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            self._unreadable(f"{name}: {type(error).__name__}")
        # After that, because callers may ask for the data immediately.
        if name in _ARRIVALS:
            self._was_ready = True
            self.is_ready.set()


async def _close(socket: DiscordWebSocket) -> None:
    # Code 1000 ends the session for good. The close frame of Discord is awaited only briefly.
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await socket.close(code=1000)


def _pause(lost: PlatformError, failures: int) -> float:
    if isinstance(lost, LoginRefused):
        return _REFUSED_SECONDS
    if isinstance(lost, RateLimited):
        return lost.retry_after
    # A connection is lost now and then, and resumed at once.
    return 0.0 if failures == 1 else pause_after(failures - 1)
