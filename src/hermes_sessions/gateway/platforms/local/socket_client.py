"""A client of the gateway's socket, which reconnects on its own.

A message is sent until the gateway has accepted it, under an id that makes retries safe. A message
of the agent is shown once, however often it is delivered.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.gateway.platforms.local.mapping import (
    DEFAULT_CHAT,
    MAX_REPLY_BYTES,
    line_of,
    read_line,
)
from hermes_sessions.gateway.platforms.port import UnreadablePayload
from hermes_sessions.gateway.platforms.receive_loop import Sleep, pause_after

# A terminal at the gateway's socket.


async def converse(
    path: str | Path,
    lines: AsyncIterator[str],
    write: Callable[[str], object],
    *,
    chat: str = DEFAULT_CHAT,
    keep_trying: bool = True,
) -> None:
    """Send every line that is not blank, print the agent's messages with *write*, and return when
    every line has been answered and every message confirmed.

    Raises:
        ConnectionRefused: the gateway refuses this client.
        ConnectionError, FileNotFoundError: the gateway is not running; only without *keep_trying*.
    """
    client = LocalClient(path, TerminalScreen(write, keeps_trying=keep_trying).show, chat=chat)
    talking = asyncio.create_task(client.run(keep_trying=keep_trying))
    saying = asyncio.create_task(_say_all(client, lines))
    try:
        await asyncio.wait({talking, saying}, return_when=asyncio.FIRST_COMPLETED)
        if talking.done():
            talking.result()
        if not saying.done():
            raise ConnectionResetError(
                "The gateway disconnected before every message was answered."
            )
        saying.result()
    finally:
        talking.cancel()
        saying.cancel()
        await asyncio.gather(talking, saying, return_exceptions=True)


async def _say_all(client: LocalClient, lines: AsyncIterator[str]) -> None:
    async for line in lines:
        if line.strip():
            client.say(line.rstrip("\n"))
    await client.leave()


class TerminalScreen:
    """Prints events in a terminal: a reply while it is written, and nothing twice."""

    def __init__(self, write: Callable[[str], object], *, keeps_trying: bool = True) -> None:
        self._write = write
        self._lost = "[Connection lost; reconnecting.]" if keeps_trying else ""
        #: The part of a reply that was printed, by the id of the question.
        self._streamed: OrderedDict[str, str] = OrderedDict()
        #: The latest complete message, by the same id.
        self._said: OrderedDict[str, str] = OrderedDict()
        self._is_in_line = False

    def show(self, event: Event) -> None:
        """Print an event."""
        if event.kind == "text":
            self._stream(event)
        elif event.kind == "tool_started":
            self._line(f"[{event.text}]")
            if event.id is not None:
                self._streamed.pop(event.id, None)
        elif event.kind == "message":
            self._message(event)
        elif event.kind == "ended":
            if event.id not in self._streamed and not self._was_said(event):
                # Another gateway ran the turn, so that no parts arrived.
                self._stream(event)
            self._end_line()
        elif event.kind == "refused":
            self._line(event.text)
        elif event.kind == "lost":
            self._line(self._lost)

    def _stream(self, event: Event) -> None:
        if event.id is not None and event.text:
            _remember(self._streamed, event.id, self._streamed.get(event.id, "") + event.text)
            self._put(event.text)

    def _was_said(self, event: Event) -> bool:
        # The whole reply takes another path than the parts, and may arrive first.
        return event.id is not None and self._said.get(event.id, "").endswith(event.text)

    def _message(self, event: Event) -> None:
        shown = self._streamed.pop(event.id, "") if event.id is not None else ""
        # The reply may start with a notice that was not among the parts.
        rest = event.text.removesuffix(shown) if shown else event.text
        if event.id is not None:
            _remember(self._said, event.id, event.text)
        self._line(rest.strip())

    def _put(self, text: str) -> None:
        if text:
            self._write(text)
            self._is_in_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._is_in_line:
            self._put("\n")

    def _line(self, text: str) -> None:
        self._end_line()
        if text:
            self._put(f"{text}\n")


def _remember(kept: OrderedDict[str, str], key: str, text: str) -> None:
    kept[key] = text
    if len(kept) > _REMEMBERED:
        kept.popitem(last=False)


#: How long the gateway may take to answer a bye.
_BYE_SECONDS: Final = 20.0
#: Keys of messages that were shown.
_REMEMBERED: Final = 1_000


class ConnectionRefused(HermesSessionsError):
    """The gateway refuses this client; retrying does not help."""


class Event(NamedTuple):
    """An event to show."""

    #: ``connected`` and ``lost``: the gateway. ``taken``: it has accepted a message; ``refused``:
    #: it does not accept it. ``text``, ``reasoning``, ``tool_started``, ``tool_finished`` and
    #: ``ended``: parts of the reply. ``message``: a complete message of the agent. ``typing``.
    kind: Literal[
        "connected",
        "lost",
        "taken",
        "refused",
        "text",
        "reasoning",
        "tool_started",
        "tool_finished",
        "ended",
        "message",
        "typing",
    ]
    text: str = ""
    #: The id from `LocalClient.say` of the message that this is about.
    id: str | None = None
    #: How the turn ended, or the state of the message.
    outcome: str | None = None


class LocalClient:
    """One user in one chat. Runs on an event loop; `run` connects, `say` works at any time."""

    def __init__(
        self,
        path: str | Path,
        show: Callable[[Event], None],
        *,
        chat: str = DEFAULT_CHAT,
        user: str | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """*path* is the gateway's socket; *show* is called on the event loop."""
        self._path = os.fspath(path)
        self._show = show
        self._hello = line_of("hello", chat=chat, user=user)
        self._sleep = sleep
        #: Unanswered messages: the line, and its state.
        self._said: OrderedDict[str, tuple[bytes, str]] = OrderedDict()
        self._shown: OrderedDict[str, None] = OrderedDict()
        self._writer: asyncio.StreamWriter | None = None
        self._later: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        self._is_leaving = False
        #: The gateway has no more messages.
        self._left = asyncio.Event()

    def say(self, text: str, *, message_id: str | None = None) -> str:
        """Send a message, now or after the next connect; return its id."""
        message_id = message_id or uuid.uuid4().hex
        line = line_of("message", id=message_id, text=text)
        self._said[message_id] = (line, "unsent")
        self._settled.clear()
        self._send_next()
        return message_id

    async def settled(self) -> None:
        """Wait until every message has been answered or refused."""
        await self._settled.wait()

    async def leave(self) -> None:
        """Wait until every message has been answered or refused, and the gateway knows that the
        agent's messages were shown. Does not wait long for a slow gateway: the next client shows
        the rest.
        """
        await self.settled()
        self._is_leaving = True
        self._say_bye()
        with suppress(TimeoutError):
            async with asyncio.timeout(_BYE_SECONDS):
                await self._left.wait()

    def _say_bye(self) -> None:
        if self._is_leaving and not self._said and self._writer is not None:
            self._writer.write(line_of("bye"))

    async def run(self, *, keep_trying: bool = True) -> None:
        """Run until cancelled. Without *keep_trying*, return when the connection ends.

        Raises:
            ConnectionRefused: the gateway refuses this client.
            ConnectionError, FileNotFoundError: the gateway is not running; only without
                *keep_trying*.
        """
        failures = 0
        while True:
            try:
                await self._talk()
                failures = 0
            except UnreadablePayload as error:
                raise ConnectionRefused(str(error)) from error
            except OSError:
                if not keep_trying:
                    raise
                failures += 1
            if not keep_trying:
                return
            await self._sleep(pause_after(failures) / 4)

    async def _talk(self) -> None:
        reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_REPLY_BYTES)
        was_welcome = is_cancelled = False
        try:
            writer.write(self._hello)
            async for heard in _lines(reader):
                if heard["type"] == "error":
                    raise ConnectionRefused(str(heard.get("error")))
                if heard["type"] == "welcome":
                    was_welcome = True
                    self._connected(writer)
                else:
                    self._hear(heard, writer)
        except asyncio.CancelledError:
            is_cancelled = True
            raise
        finally:
            self._writer = None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            if was_welcome and not is_cancelled and not self._left.is_set():
                self._show(Event("lost"))
        if not was_welcome:
            raise ConnectionResetError("The gateway closed the connection at once.")

    def _connected(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._show(Event("connected"))
        for message_id, (line, _) in self._said.items():
            # Accepted messages are sent again to follow them: the gateway recognises their ids.
            self._said[message_id] = (line, "unsent")
        self._send_next()
        self._say_bye()

    def _send_next(self) -> None:
        """Send the first message that is not accepted; one at a time, to keep the order."""
        states = [state for _, state in self._said.values()]
        if self._writer is None or "sent" in states:
            return
        for message_id, (line, state) in self._said.items():
            if state == "unsent":
                self._said[message_id] = (line, "sent")
                self._writer.write(line)
                return

    # ── hearing ───────────────────────────────────────────────────────────────────────────────

    def _hear(self, heard: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
        kind, message_id = heard["type"], str(heard.get("id"))
        if kind == "message":
            self._hear_message(heard, writer)
        elif kind == "typing":
            self._show(Event("typing"))
        elif kind == "bye":
            self._left.set()
        elif message_id not in self._said:
            return
        elif kind == "receipt":
            self._hear_receipt(message_id, str(heard.get("status")))
        elif kind == "failed":
            self._hear_failure(message_id, heard)
        elif kind == "progress":
            self._hear_progress(message_id, heard)

    def _hear_message(self, heard: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
        key = str(heard.get("key"))
        if key not in self._shown:
            self._shown[key] = None
            if len(self._shown) > _REMEMBERED:
                self._shown.popitem(last=False)
            self._show(Event("message", str(heard.get("text")), heard.get("answers")))
        writer.write(line_of("seen", key=key))

    def _hear_receipt(self, message_id: str, status: str) -> None:
        line, _ = self._said[message_id]
        self._said[message_id] = (line, "taken")
        kind: Literal["refused", "taken"] = "refused" if status == "refused" else "taken"
        self._show(Event(kind, id=message_id, outcome=status))
        if status not in {"stored", "duplicate"}:
            # A command has run, or no reply will follow.
            self._forget(message_id)
        self._send_next()

    def _hear_failure(self, message_id: str, heard: Mapping[str, Any]) -> None:
        line, _ = self._said[message_id]
        if heard.get("again"):
            self._said[message_id] = (line, "unsent")
            self._later = asyncio.get_running_loop().create_task(self._send_later())
            return
        self._show(Event("refused", str(heard.get("error")), message_id))
        self._forget(message_id)
        self._send_next()

    async def _send_later(self) -> None:
        await self._sleep(1.0)
        self._send_next()

    def _hear_progress(self, message_id: str, heard: Mapping[str, Any]) -> None:
        kind, text = heard.get("kind"), str(heard.get("text"))
        if kind in {"text", "reasoning", "tool_started", "tool_finished", "ended"}:
            self._show(Event(kind, text, message_id, heard.get("outcome")))
        if kind == "ended":
            self._forget(message_id)

    def _forget(self, message_id: str) -> None:
        self._said.pop(message_id, None)
        if not self._said:
            self._settled.set()


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[Mapping[str, Any]]:
    while True:
        try:
            line = await reader.readline()
        except ValueError:
            raise UnreadablePayload("The gateway sent a line that is too long.") from None
        if not line.endswith(b"\n"):
            return
        yield read_line(line)
