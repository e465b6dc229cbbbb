"""Drafts: a reply that is shown while it is being written, and then replaced by the whole of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.port import Adapter, PlatformError, RateLimited
from hermes_sessions.gateway.platforms.text_splitter import measure, split
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

#: So many seconds a draft is changed without looking whether that is still ours to do.
_ASK_AFTER: Final = 10.0
#: Typing is shown again after so many seconds; platforms forget it after about five.
_TYPING_EVERY: Final = 4.0


@dataclass(frozen=True, slots=True)
class Streaming:
    """How replies are shown while they are written."""

    enabled: bool = True
    #: Seconds between two changes of a draft, if the platform does not ask for more.
    edit_interval: float = 1.0
    #: Characters before a draft is begun, and between two changes.
    buffer_threshold: int = 40
    #: Shown at the end of an unfinished text.
    cursor: str = " ▉"


class DraftNote(Protocol):
    """Where it is remembered which message shows a draft."""

    async def shown(self, message_id: str) -> bool:
        """Remember it, for whoever goes on if this process dies; return whether that was done. It
        is not done for a turn that has ended.
        """

    async def is_ours(self, *, is_over: bool) -> bool:
        """Return whether the message still is this draft's; with *is_over*, forget it, too."""


class Draft:
    """The draft of one reply. Lives on the event loop.

    It is decoration: whatever fails here is logged, and the reply is sent all the same.
    """

    def __init__(
        self,
        adapter: Adapter,
        target: Target,
        streaming: Streaming,
        *,
        key: str,
        note: DraftNote | None = None,
        message_id: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*note* is where it is remembered which message shows it; *message_id* is one that an
        attempt before this left, to go on with.
        """
        self._adapter = adapter
        self._note = note
        self._clock = clock
        self._asked_at = clock()
        self._target = target
        self._streaming = streaming
        self._key = key
        self._text = ""
        self._shown = ""
        self._changed = asyncio.Event()
        #: What is being sent or changed at the moment.
        self._doing: asyncio.Future[None] | None = None
        self._task = asyncio.create_task(self._run())
        #: The message that shows it.
        self.message_id = message_id
        #: Whether others know of that message.
        self._is_known = message_id is not None

    def add(self, text: str) -> None:
        """Show more text when it is due."""
        self._text += text
        self._changed.set()

    def begin_again(self) -> None:
        """What follows is another text, after a tool has run."""
        self._text, self._shown = "", ""

    async def finish(self) -> str | None:
        """Change nothing more; return the message that the whole reply is to replace, if any."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._doing is not None:
            # A message that the platform is taking now would stay behind, or overtake the reply.
            await asyncio.gather(self._doing, return_exceptions=True)
        return self.message_id

    async def leave(self, *, is_over: bool) -> None:
        """Take the cursor away from what no reply will replace, or not before another attempt.

        What an attempt before this one showed, and this one did not change, is left to whoever
        finds it.
        """
        text = self._shown.removesuffix(self._streaming.cursor)
        if self.message_id is None or not text:
            return
        if (
            self._is_known
            and self._note is not None
            and not await self._note.is_ours(is_over=is_over)
        ):
            return
        try:
            await self._adapter.edit(self._target, self.message_id, text)
        except PlatformError as error:
            logger.info("a draft stays as it is: %s", error)

    async def _run(self) -> None:
        typing = asyncio.create_task(self._show_typing())
        try:
            if self._streaming.enabled and self._adapter.limits.edits:
                await self._show_text()
            else:
                await typing
        finally:
            typing.cancel()
            await asyncio.gather(typing, return_exceptions=True)

    async def _show_typing(self) -> None:
        while self._adapter.limits.typing:
            try:
                await self._adapter.typing(self._target)
            except PlatformError as error:
                logger.debug("typing is not shown: %s", error)
            await asyncio.sleep(_TYPING_EVERY)

    async def _show_text(self) -> None:
        interval = max(self._streaming.edit_interval, self._adapter.limits.edit_seconds)
        while True:
            await self._changed.wait()
            self._changed.clear()
            text = self._first_part()
            if len(text) - len(self._shown) < self._streaming.buffer_threshold:
                continue
            if not await self._is_ours():
                logger.info("the draft is shown by another process")
                return
            pause = interval
            try:
                self._doing = asyncio.ensure_future(self._show(text))
                await asyncio.shield(self._doing)
            except RateLimited as error:
                pause = error.retry_after
            except PlatformError as error:
                logger.info("the draft is not shown any further: %s", error)
                return
            await asyncio.sleep(pause)

    async def _is_ours(self) -> bool:
        """Now and then, look whether another process has taken the turn over, and this message."""
        now = self._clock()
        if self._note is None or not self._is_known or 0 <= now - self._asked_at < _ASK_AFTER:
            return True
        self._asked_at = now
        return await self._note.is_ours(is_over=False)

    def _first_part(self) -> str:
        """Return what fits one message, with the cursor; later parts are sent with the whole."""
        limits = self._adapter.limits
        cursor = self._streaming.cursor
        room = limits.text - measure(cursor, limits.length_unit)
        if measure(self._text, limits.length_unit) <= room:
            return self._text + cursor
        parts = split(self._text, limits)
        return parts[0] if parts else ""

    async def _show(self, text: str) -> None:
        if self.message_id is None:
            self.message_id = await self._adapter.send(self._target, text, key=self._key)
            if self._note is not None:
                self._is_known = await self._note.shown(self.message_id)
        else:
            await self._adapter.edit(self._target, self.message_id, text)
        self._shown = text
