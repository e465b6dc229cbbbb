"""Socket Mode: Slack brings messages over a socket that we opened, so that nobody has to reach us.

An envelope is acknowledged when what is in it is stored. The SDK's own client would try a refused
token for ever and write messages into the log, so the loop is ours; the calls and the forms of what
is sent are the SDK's.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import aiohttp
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from hermes_sessions.gateway.platforms.port import Unreachable
from hermes_sessions.gateway.platforms.receive_loop import (
    Sleep,
    Stopped,
    StopSignal,
    keep_receiving,
    pause_after,
)
from hermes_sessions.gateway.platforms.slack.client import SlackClient
from hermes_sessions.gateway.platforms.slack.errors import NotAccepted, Take

logger = logging.getLogger(__name__)

#: Envelopes that may wait; when there are more, they are left in the socket.
_MOST_WAITING: Final = 1_000
#: How long Slack may take to say hello.
_HELLO_SECONDS: Final = 30.0
#: How long what has come may be acknowledged on a socket that Slack is about to close: it says so
#: ten seconds before.
_LEAVING_SECONDS: Final = 5.0

_ENDED: Final = frozenset(
    {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED}
)


class _Envelope(NamedTuple):
    socket: aiohttp.ClientWebSocketResponse
    id: str
    payload: object


class SocketMode:
    """Receives from `start` to `stop`, through as many sockets as it takes."""

    def __init__(self, client: SlackClient, take: Take, *, sleep: Sleep) -> None:
        self._client = client
        self._take = take
        self._sleep = sleep
        self._ending = StopSignal()
        self._waiting: asyncio.Queue[_Envelope] = asyncio.Queue(_MOST_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self.is_running = False

    async def start(self) -> None:
        """Open the first socket; returns when Slack has said hello.

        Raises:
            LoginRefused, Unreachable, RateLimited
        """
        await self._open()
        receiving = keep_receiving(
            self._receive, self._ending, sleep=self._sleep, platform="slack", logger=logger
        )
        self._tasks = [asyncio.create_task(receiving), asyncio.create_task(self._work())]

    async def stop(self) -> None:
        """Take nothing more, acknowledge what is being taken, close."""
        self._ending.ask()
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*tasks)
        await self._leave()

    # ── sockets ───────────────────────────────────────────────────────────────────────────────

    async def _open(self) -> aiohttp.ClientWebSocketResponse:
        socket = await self._client.open_socket()
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                hello = await socket.receive()
        except TimeoutError as error:
            await socket.close()
            raise Unreachable("Slack opened a socket and said nothing.") from error
        except BaseException:
            await socket.close()
            raise
        if _parsed(hello).get("type") != "hello":
            await socket.close()
            raise Unreachable("Slack closed the socket at once.")
        self._socket = socket
        self.is_running = True
        return socket

    async def _leave(self) -> None:
        self.is_running = False
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def _receive(self) -> bool:
        """Use one socket until it ends; return whether that is nothing unusual."""
        socket = self._socket
        if socket is None:
            socket = await self._ending.result_unless_stopped(self._open())
            logger.info("slack: connected again")
        try:
            return await self._read(socket)
        finally:
            # At the end it stays open, for what is still being taken.
            if not self._ending.is_stop_requested:
                await self._leave()

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> bool:
        """Read until the socket ends; return whether anything came, or Slack asked for another."""
        is_good = False
        while True:
            frame = await self._ending.result_unless_stopped(socket.receive())
            if frame.type in _ENDED or frame.type is aiohttp.WSMsgType.ERROR:
                logger.info("slack: the socket was lost")
                return is_good
            message = _parsed(frame)
            if message.get("type") == "disconnect":
                return await self._is_replaced(message)
            is_good = True
            envelope_id = message.get("envelope_id")
            if isinstance(envelope_id, str):
                await self._ending.result_unless_stopped(
                    self._waiting.put(_Envelope(socket, envelope_id, _payload(message)))
                )

    async def _is_replaced(self, message: Mapping[str, Any]) -> bool:
        """Tell whether Slack only wants another socket to be used, which it does every few hours;
        what has come on this one is acknowledged first.
        """
        if message.get("reason") == "link_disabled":
            logger.error("slack: Socket Mode was turned off in the app's settings")
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_SECONDS):
                await self._ending.result_unless_stopped(self._waiting.join())
        return True

    # ── envelopes ─────────────────────────────────────────────────────────────────────────────

    async def _work(self) -> None:
        """Take envelopes one after the other, in the order in which they came."""
        with suppress(Stopped):
            while not self._ending.is_stop_requested:
                envelope = await self._ending.result_unless_stopped(self._waiting.get())
                await self._offer(envelope)
                await _acknowledge(envelope)
                self._waiting.task_done()

    async def _offer(self, envelope: _Envelope) -> None:
        """Offer an envelope until it is taken. Slack brings it again a few times only, so it stays
        here; those behind it wait.
        """
        failures = 0
        while True:
            try:
                return await self._take(envelope.payload)
            except NotAccepted:
                failures += 1
            if self._ending.is_stop_requested:
                raise Stopped  # it comes again
            await self._ending.result_unless_stopped(self._sleep(pause_after(failures)))


async def _acknowledge(envelope: _Envelope) -> None:
    """Tell Slack that it need not come again; if that fails, it comes again and is recognised."""
    answer = json.dumps(SocketModeResponse(envelope.id).to_dict())
    try:
        await envelope.socket.send_str(answer)
    except (OSError, aiohttp.ClientError, RuntimeError) as error:
        logger.info("slack: an event could not be acknowledged: %s", error)


def _parsed(frame: aiohttp.WSMessage) -> Mapping[str, Any]:
    if frame.type is not aiohttp.WSMsgType.TEXT:
        return {}
    try:
        message = json.loads(frame.data)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, Mapping) else {}


def _payload(message: Mapping[str, Any]) -> object:
    """Return what an envelope brings: events and commands; of clicks, nothing."""
    try:
        request = SocketModeRequest.from_dict(dict(message))
    except (TypeError, ValueError):
        return None
    if request is None:
        return None
    return request.payload if request.type in ("events_api", "slash_commands") else {}
