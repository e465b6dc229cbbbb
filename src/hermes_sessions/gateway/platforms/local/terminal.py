"""A terminal at the gateway's socket: what it prints, and a talk from beginning to end."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from hermes_sessions.gateway.platforms.local.mapping import DEFAULT_CHAT
from hermes_sessions.gateway.platforms.local.socket_client import Event, LocalClient

#: Answers of which it is remembered what was shown.
_REMEMBERED: Final = 1_000


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
    client = LocalClient(path, Screen(write, keeps_trying=keep_trying).show, chat=chat)
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


class Screen:
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
