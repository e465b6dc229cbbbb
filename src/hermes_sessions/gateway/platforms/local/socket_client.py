"""A client of the gateway's socket: talks to the agent that runs there, and comes back by itself.

What was said is sent until the gateway has taken it, under an id by which it is taken once. What
the agent says is shown once, however often it is delivered.
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

# A terminal at the gateway's socket: what it prints, and a talk from beginning to end.


async def converse(
    path: str | Path,
    lines: AsyncIterator[str],
    write: Callable[[str], object],
    *,
    chat: str = DEFAULT_CHAT,
    keep_trying: bool = True,
) -> None:
    """Say every line that is not blank, print what the agent says with *write*, and return when
    all has been answered and the gateway knows that it was shown.

    Raises:
        Refused: the gateway does not want this client.
        ConnectionError, FileNotFoundError: nobody is there; only without *keep_trying*.
    """
    client = LocalClient(path, TerminalScreen(write, keeps_trying=keep_trying).show, chat=chat)
    talking = asyncio.create_task(client.run(keep_trying=keep_trying))
    saying = asyncio.create_task(_say_all(client, lines))
    try:
        await asyncio.wait({talking, saying}, return_when=asyncio.FIRST_COMPLETED)
        if talking.done():
            talking.result()
        if not saying.done():
            raise ConnectionResetError("The gateway has gone before everything was answered.")
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
    """Turns events into what a terminal prints: an answer as it comes, and nothing twice."""

    def __init__(self, write: Callable[[str], object], *, keeps_trying: bool = True) -> None:
        self._write = write
        self._lost = "[The gateway has gone; trying again.]" if keeps_trying else ""
        #: What was shown of an answer as it came, by the id of what it answers.
        self._streamed: OrderedDict[str, str] = OrderedDict()
        #: What was last said whole, by the same.
        self._said: OrderedDict[str, str] = OrderedDict()
        self._is_in_line = False

    def show(self, event: Event) -> None:
        """Print what an event says."""
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
                # Another gateway ran the turn, so nothing was heard of it before.
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
        # The whole reply goes another way than what is heard of the turn, and may be faster.
        return event.id is not None and self._said.get(event.id, "").endswith(event.text)

    def _message(self, event: Event) -> None:
        shown = self._streamed.pop(event.id, "") if event.id is not None else ""
        # The reply may have a notice before it that was not part of the answer.
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


#: A gateway that is asked whether it has anything more to say may take so long.
_BYE_SECONDS: Final = 20.0
#: Keys of messages that were shown.
_REMEMBERED: Final = 1_000


class ConnectionRefused(HermesSessionsError):
    """The gateway does not talk to this client; trying again does not help."""


class Event(NamedTuple):
    """Something that a person may want to see."""

    #: ``connected`` and ``lost``: the gateway. ``taken``: it has what was said; ``refused``: it
    #: will not have it. ``text``, ``reasoning``, ``tool_started``, ``tool_finished`` and ``ended``:
    #: of the answer. ``message``: something whole that the agent says. ``typing``.
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
    #: What was said, by the id that `LocalClient.say` returned: what this is about.
    id: str | None = None
    #: How the turn ended, or what became of the message.
    outcome: str | None = None


class LocalClient:
    """One person in one chat. Lives on an event loop; `run` talks, `say` may be called any time."""

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
        #: What was said and has not been answered: the line, and how far it is.
        self._said: OrderedDict[str, tuple[bytes, str]] = OrderedDict()
        self._shown: OrderedDict[str, None] = OrderedDict()
        self._writer: asyncio.StreamWriter | None = None
        self._later: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        self._is_leaving = False
        #: The gateway has nothing more to say.
        self._left = asyncio.Event()

    def say(self, text: str, *, message_id: str | None = None) -> str:
        """Say something, now or when the gateway is there; return its id."""
        message_id = message_id or uuid.uuid4().hex
        line = line_of("message", id=message_id, text=text)
        self._said[message_id] = (line, "unsent")
        self._settled.clear()
        self._send_next()
        return message_id

    async def settled(self) -> None:
        """Wait until everything that was said has been answered, or refused."""
        await self._settled.wait()

    async def leave(self) -> None:
        """Wait until everything that was said has been answered, or refused, and what the agent
        said has been shown, which the gateway then knows. A gateway that does not say so soon is
        not waited for: what is left is shown to whoever comes next.
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
        """Talk until cancelled. Without *keep_trying*, return when the connection ends.

        Raises:
            Refused: the gateway does not want this client.
            ConnectionError, FileNotFoundError: nobody is there; only without *keep_trying*.
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
            # What was taken is asked for again, to follow it: it is recognised by its id.
            self._said[message_id] = (line, "unsent")
        self._send_next()
        self._say_bye()

    def _send_next(self) -> None:
        """Send what was said first and is not taken; one at a time, so that order is kept."""
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
            # A command was carried out, or nothing will follow.
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
