"""Socket Mode: receive events over a WebSocket that the gateway opens, without a public URL.

An envelope is acknowledged after its message is stored. The SDK's own client would retry a refused
token forever and log messages, so the loop is here; requests and message formats are the SDK's.
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

#: Envelopes that may wait; further ones stay in the socket.
_MAX_WAITING: Final = 1_000
#: How long to wait for Slack's hello.
_HELLO_SECONDS: Final = 30.0
#: How long pending envelopes may be acknowledged on a socket that Slack is about to close: it warns
#: ten seconds before.
_CLOSE_SECONDS: Final = 5.0

_ENDED: Final = frozenset(
    {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED}
)


class _Envelope(NamedTuple):
    socket: aiohttp.ClientWebSocketResponse
    id: str
    payload: object


class SocketMode:
    """Receives from `start` to `stop`, over successive WebSockets."""

    def __init__(self, client: SlackClient, take: Take, *, sleep: Sleep) -> None:
        self._client = client
        self._take = take
        self._sleep = sleep
        self._ending = StopSignal()
        self._waiting: asyncio.Queue[_Envelope] = asyncio.Queue(_MAX_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self.is_running = False

    async def start(self) -> None:
        """Open the first WebSocket; return after Slack's hello.

        Raises:
            LoginRefused, Unreachable, RateLimited
        """
        await self._open()
        receiving = keep_receiving(
            self._receive, self._ending, sleep=self._sleep, platform="slack", logger=logger
        )
        self._tasks = [
            asyncio.create_task(receiving),
            asyncio.create_task(self._deliver_in_order()),
        ]

    async def stop(self) -> None:
        """Stop receiving, acknowledge the envelope in progress, close."""
        self._ending.ask()
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*tasks)
        await self._close_socket()

    # ── sockets ───────────────────────────────────────────────────────────────────────────────

    async def _open(self) -> aiohttp.ClientWebSocketResponse:
        socket = await self._client.open_socket()
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                hello = await socket.receive()
        except TimeoutError as error:
            await socket.close()
            raise Unreachable("Slack opened a WebSocket and sent no hello.") from error
        except BaseException:
            await socket.close()
            raise
        if _parsed(hello).get("type") != "hello":
            await socket.close()
            raise Unreachable("Slack closed the WebSocket at once.")
        self._socket = socket
        self.is_running = True
        return socket

    async def _close_socket(self) -> None:
        self.is_running = False
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def _receive(self) -> bool:
        """Use one WebSocket until it ends; return whether it ended normally."""
        socket = self._socket
        if socket is None:
            socket = await self._ending.result_unless_stopped(self._open())
            logger.info("slack: reconnected")
        try:
            return await self._read(socket)
        finally:
            # It stays open until the envelope in progress is acknowledged.
            if not self._ending.is_stop_requested:
                await self._close_socket()

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> bool:
        """Read until the WebSocket ends; return whether data came or Slack wants a new one."""
        is_good = False
        while True:
            frame = await self._ending.result_unless_stopped(socket.receive())
            if frame.type in _ENDED or frame.type is aiohttp.WSMsgType.ERROR:
                logger.info("slack: the connection was lost")
                return is_good
            message = _parsed(frame)
            if message.get("type") == "disconnect":
                return await self._wants_new_socket(message)
            is_good = True
            envelope_id = message.get("envelope_id")
            if isinstance(envelope_id, str):
                await self._ending.result_unless_stopped(
                    self._waiting.put(_Envelope(socket, envelope_id, _payload(message)))
                )

    async def _wants_new_socket(self, message: Mapping[str, Any]) -> bool:
        """Return whether Slack asks for a new WebSocket, as it does every few hours; pending
        envelopes are acknowledged on this one first.
        """
        if message.get("reason") == "link_disabled":
            logger.error("slack: Socket Mode was turned off in the app's settings")
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._ending.result_unless_stopped(self._waiting.join())
        return True

    # ── envelopes ─────────────────────────────────────────────────────────────────────────────

    async def _deliver_in_order(self) -> None:
        """Deliver envelopes one at a time, in order of arrival."""
        with suppress(Stopped):
            while not self._ending.is_stop_requested:
                envelope = await self._ending.result_unless_stopped(self._waiting.get())
                await self._offer(envelope)
                await _acknowledge(envelope)
                self._waiting.task_done()

    async def _offer(self, envelope: _Envelope) -> None:
        """Deliver an envelope, with retries. Slack redelivers it only a few times, so it is kept
        here, and later ones wait.
        """
        failures = 0
        while True:
            try:
                return await self._take(envelope.payload)
            except NotAccepted:
                failures += 1
            if self._ending.is_stop_requested:
                raise Stopped  # Slack delivers it again
            await self._ending.result_unless_stopped(self._sleep(pause_after(failures)))


async def _acknowledge(envelope: _Envelope) -> None:
    """Acknowledge an envelope; if that fails, Slack delivers it again and it is recognised."""
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
    """Return the payload of an envelope: an event or a command; nothing for clicks."""
    try:
        request = SocketModeRequest.from_dict(dict(message))
    except (TypeError, ValueError):
        return None
    if request is None:
        return None
    return request.payload if request.type in ("events_api", "slash_commands") else {}
