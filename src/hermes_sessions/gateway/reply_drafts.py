"""Drafts: replies that a platform shows while they are written, then replaced by the final text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from hermes_sessions.errors import StoreError
from hermes_sessions.gateway.active_turns import ActiveTurn
from hermes_sessions.gateway.delivery import reply_to
from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.port import Adapter, PlatformError, RateLimited
from hermes_sessions.gateway.platforms.text_splitter import measure, split
from hermes_sessions.lifecycle.mailboxes import StartedTurn
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.repositories.outbox import Drafts
from hermes_sessions.storage.repositories.turns import Turn

#: Seconds for which a draft is edited without checking that this process still owns the turn.
_ASK_AFTER: Final = 10.0
#: Seconds between typing indicators; platforms hide them after about five.
_TYPING_EVERY: Final = 4.0


@dataclass(frozen=True, slots=True)
class Streaming:
    """How drafts are shown."""

    enabled: bool = True
    #: Seconds between two edits of a draft, unless the platform needs more.
    edit_interval: float = 1.0
    #: Characters before a draft is started, and between two edits.
    buffer_threshold: int = 40
    #: Shown at the end of an unfinished text.
    cursor: str = " ▉"


class DraftRecord(Protocol):
    """Remembers which message shows a draft."""

    async def shown(self, message_id: str) -> bool:
        """Remember the message, for the process that continues if this one dies; return whether it
        was stored. It is not stored for a turn that has ended.
        """

    async def is_ours(self, *, is_over: bool) -> bool:
        """Return whether the message still belongs to this draft; with *is_over*, forget it."""


class Draft:
    """The draft of one reply. On the event loop.

    Drafts are optional: a failure here is logged, and the reply is sent all the same.
    """

    def __init__(
        self,
        adapter: Adapter,
        target: Target,
        streaming: Streaming,
        *,
        key: str,
        note: DraftRecord | None = None,
        message_id: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*note* remembers the message that shows the draft; *message_id* is the message of an
        earlier attempt to continue with.
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
        #: The running send or edit.
        self._doing: asyncio.Future[None] | None = None
        self._task = asyncio.create_task(self._run())
        #: The message that shows the draft.
        self.message_id = message_id
        #: Whether that message is stored.
        self._is_known = message_id is not None

    def add(self, text: str) -> None:
        """Add text, which is shown when an edit is due."""
        self._text += text
        self._changed.set()

    def begin_again(self) -> None:
        """Start a new text, after a tool has run."""
        self._text, self._shown = "", ""

    async def finish(self) -> str | None:
        """Stop editing; return the message that the final reply replaces, if any."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._doing is not None:
            # A message that is being sent now would remain, or arrive after the reply.
            await asyncio.gather(self._doing, return_exceptions=True)
        return self.message_id

    async def leave(self, *, is_over: bool) -> None:
        """Remove the cursor from a draft that no reply will replace, or not before a retry.

        The draft of an earlier attempt that this one has not edited is left to its recovery.
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
            logger.info("could not finish a draft: %s", error)

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
                logger.debug("could not show typing: %s", error)
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
                logger.info("another process shows the draft now")
                return
            pause = interval
            try:
                self._doing = asyncio.ensure_future(self._show(text))
                await asyncio.shield(self._doing)
            except RateLimited as error:
                pause = error.retry_after
            except PlatformError as error:
                logger.info("stopped showing the draft: %s", error)
                return
            await asyncio.sleep(pause)

    async def _is_ours(self) -> bool:
        """Check from time to time whether another process has taken over the turn."""
        now = self._clock()
        if self._note is None or not self._is_known or 0 <= now - self._asked_at < _ASK_AFTER:
            return True
        self._asked_at = now
        return await self._note.is_ours(is_over=False)

    def _first_part(self) -> str:
        """Return the text that fits into one message, with the cursor."""
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


logger = Logger(__name__)

#: The longest wait of a turn for its draft.
_PATIENCE: Final = 15.0
_SLOW: Final = "Nothing has happened for a while. I am still waiting; /stop ends it."
ABANDONED: Final = "I was interrupted before I finished this answer, and will not continue it."
_STILL_WORKING: Final = "Still working…"


class DraftPublisher:
    """Shows the drafts of turns on connected platforms."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        adapters: Mapping[str, Adapter],
        streaming: Callable[[str], Streaming],
        drafts: Drafts,
    ) -> None:
        """*streaming* returns how a platform shows drafts. *drafts* outlives this process."""
        self._drafts = drafts
        self._loop = loop
        self._adapters = adapters
        self._streaming = streaming
        #: Drafts by turn, while they run here or are being finished.
        self._active: WeakValueDictionary[int, DraftHandle] = WeakValueDictionary()

    def show(self, target: Target, taken: StartedTurn) -> DraftHandle:
        """Start the draft of a turn, in the message of an earlier attempt if there is one. From
        the turn's thread.
        """
        turn, left = taken.turn, self._earlier_draft(taken)
        adapter, draft = self._adapters.get(target.platform), None
        if adapter is not None and adapter.is_connected:
            draft = self._do(self._begin(adapter, target, turn, left))
        self._active[turn.id] = shown = DraftHandle(self._loop, draft, left)
        return shown

    def _earlier_draft(self, taken: StartedTurn) -> str | None:
        before = taken.input.items[0].turn_id
        try:
            return None if before is None else self._drafts.adopt(before, taken.turn.id)
        except StoreError as error:
            logger.info("cannot continue the draft of an earlier attempt: %s", error)
            return None

    async def _begin(self, adapter: Adapter, target: Target, turn: Turn, left: str | None) -> Draft:
        return Draft(
            adapter,
            target,
            self._streaming(adapter.name),
            key=f"draft.{turn.id}",
            note=_StoredDraftRecord(self._drafts, target, turn),
            message_id=left,
        )

    def finish_left(self) -> int:
        """Replace orphaned drafts with a notice; return how many.

        Raises:
            StoreError: the store is unavailable.
        """
        return self._drafts.finish_left(ABANDONED, besides=tuple(self._active))

    def tell(self, turn: ActiveTurn, text: str, *, key: str) -> None:
        """Send a notice about a turn to its chat, from any thread and without waiting: a platform
        that hangs must not delay the heartbeat.
        """
        source = turn.source
        adapter = self._adapters.get(source.platform.value)
        if adapter is None or not adapter.is_connected or self._loop.is_closed():
            return
        target = Target(source.platform.value, source.chat_id, source.thread_id)
        asyncio.run_coroutine_threadsafe(_tell(adapter, target, text, key), self._loop)

    def warn(self, turns: Iterable[ActiveTurn]) -> None:
        """Tell the users of inactive turns that nothing happens."""
        for turn in turns:
            self.tell(turn, _SLOW, key=f"slow.{turn.taken.turn.id}")

    def tell_still_running(self, turns: Iterable[tuple[ActiveTurn, int]]) -> None:
        """Tell the users of long turns that they are running, and for how many minutes."""
        for turn, minutes in turns:
            since = f" ({minutes} min)" if minutes else ""
            self.tell(turn, f"{_STILL_WORKING}{since}", key=f"work.{turn.taken.turn.id}.{minutes}")

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(_PATIENCE)
        except FutureTimeout:
            future.cancel()
            return None


class DraftHandle:
    """The draft of a turn; see `turn_runner.DraftView`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, draft: Draft | None, left: str | None = None
    ) -> None:
        self._loop = loop
        self._draft = draft
        #: The message of an earlier attempt.
        self._left = left

    def text(self, piece: str) -> None:
        """Add text."""
        if self._draft is not None:
            self._loop.call_soon_threadsafe(self._draft.add, piece)

    def tool(self) -> None:
        """Start a new text."""
        if self._draft is not None:
            self._loop.call_soon_threadsafe(self._draft.begin_again)

    def finish(self) -> str | None:
        """Stop the draft; return the message that the reply replaces."""
        if self._draft is None:
            return self._left
        future = asyncio.run_coroutine_threadsafe(self._draft.finish(), self._loop)
        try:
            return future.result(_PATIENCE)
        except FutureTimeout:
            return self._draft.message_id

    def leave(self, *, is_over: bool) -> None:
        """Show the draft without the cursor, because no reply replaces it; *is_over* if that is
        final.
        """
        if self._draft is not None and not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._leave(self._draft, is_over), self._loop)

    async def _leave(self, draft: Draft, is_over: bool) -> None:
        # Looked up here, so that the draft stays registered until it is done.
        await draft.leave(is_over=is_over)


class _StoredDraftRecord:
    """Remembers in the store which message shows a turn's draft; see `DraftRecord`."""

    def __init__(self, drafts: Drafts, target: Target, turn: Turn) -> None:
        self._drafts = drafts
        self._target = target
        self._turn = turn

    async def shown(self, message_id: str) -> bool:
        """See `DraftRecord.shown`. A failure here does not fail the turn."""
        turn = self._turn
        shown = reply_to(
            self._target, "", lane_id=turn.lane_id, turn_id=turn.id, draft_id=message_id
        )
        try:
            return await asyncio.to_thread(self._drafts.note, shown)
        except StoreError as error:
            logger.info("could not store the message of a draft: %s", error)
            return False

    async def is_ours(self, *, is_over: bool) -> bool:
        """See `DraftRecord.is_ours`."""
        try:
            if is_over:
                return await asyncio.to_thread(self._drafts.forget, self._turn.id)
            return await asyncio.to_thread(self._drafts.of_turn, self._turn.id) is not None
        except StoreError as error:
            logger.info("cannot check the owner of a draft: %s", error)
            return False


async def _tell(adapter: Adapter, target: Target, text: str, key: str) -> None:
    try:
        await adapter.send(target, text, key=key)
    except PlatformError as error:
        logger.info("could not deliver a notice about a turn: %s", error)
