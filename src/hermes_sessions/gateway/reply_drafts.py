"""Drafts as a turn's thread sees them: it says what is new, the event loop shows it."""

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

# Drafts: a reply that is shown while it is being written, and then replaced by the whole of it.

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


class DraftRecord(Protocol):
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
        note: DraftRecord | None = None,
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


logger = Logger(__name__)

#: A turn does not wait longer for what it shows.
_PATIENCE: Final = 15.0
_SLOW: Final = "Nothing has happened for a while. I go on waiting; /stop ends it."
LEFT: Final = "I was interrupted before I had said this, and do not go on with it."
_AT_WORK: Final = "Still working…"


class DraftPublisher:
    """Shows what turns say on the platforms that are connected."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        adapters: Mapping[str, Adapter],
        streaming: Callable[[str], Streaming],
        drafts: Drafts,
    ) -> None:
        """*streaming* tells how a platform shows drafts. *drafts* outlives this process."""
        self._drafts = drafts
        self._loop = loop
        self._adapters = adapters
        self._streaming = streaming
        #: By turn, as long as somebody has to do with it: what runs here, or is being left.
        self._at_hand: WeakValueDictionary[int, DraftHandle] = WeakValueDictionary()

    def show(self, target: Target, taken: StartedTurn) -> DraftHandle:
        """Begin to show what a turn says, in the place of what an attempt before it showed. From
        the turn's thread.
        """
        turn, left = taken.turn, self._left_by_the_attempt_before(taken)
        adapter, draft = self._adapters.get(target.platform), None
        if adapter is not None and adapter.is_connected:
            draft = self._do(self._begin(adapter, target, turn, left))
        self._at_hand[turn.id] = shown = DraftHandle(self._loop, draft, left)
        return shown

    def _left_by_the_attempt_before(self, taken: StartedTurn) -> str | None:
        before = taken.input.items[0].turn_id
        try:
            return None if before is None else self._drafts.adopt(before, taken.turn.id)
        except StoreError as error:
            logger.info("what was shown before is not gone on with: %s", error)
            return None

    async def _begin(self, adapter: Adapter, target: Target, turn: Turn, left: str | None) -> Draft:
        return Draft(
            adapter,
            target,
            self._streaming(adapter.name),
            key=f"draft.{turn.id}",
            note=_Note(self._drafts, target, turn),
            message_id=left,
        )

    def finish_left(self) -> int:
        """Put words in the place of drafts that nobody goes on with; return how many.

        Raises:
            StoreError: the store cannot be used.
        """
        return self._drafts.finish_left(LEFT, besides=tuple(self._at_hand))

    def tell(self, turn: ActiveTurn, text: str, *, key: str) -> None:
        """Say something about a turn where it is answered; from any thread, and nobody waits for
        it: a platform that hangs must not hold up a heartbeat.
        """
        source = turn.source
        adapter = self._adapters.get(source.platform.value)
        if adapter is None or not adapter.is_connected or self._loop.is_closed():
            return
        target = Target(source.platform.value, source.chat_id, source.thread_id)
        asyncio.run_coroutine_threadsafe(_tell(adapter, target, text, key), self._loop)

    def warn(self, turns: Iterable[ActiveTurn]) -> None:
        """Tell those whose turns have done nothing for long."""
        for turn in turns:
            self.tell(turn, _SLOW, key=f"slow.{turn.taken.turn.id}")

    def say_at_work(self, turns: Iterable[tuple[ActiveTurn, int]]) -> None:
        """Tell those whose turns take long that they go on, and for how many minutes they have."""
        for turn, minutes in turns:
            since = f" ({minutes} min)" if minutes else ""
            self.tell(turn, f"{_AT_WORK}{since}", key=f"work.{turn.taken.turn.id}.{minutes}")

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(_PATIENCE)
        except FutureTimeout:
            future.cancel()
            return None


class DraftHandle:
    """What a turn shows; see `turn_runner.DraftView`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, draft: Draft | None, left: str | None = None
    ) -> None:
        self._loop = loop
        self._draft = draft
        #: What an attempt before this one showed.
        self._left = left

    def text(self, piece: str) -> None:
        """Add to what is shown."""
        if self._draft is not None:
            self._loop.call_soon_threadsafe(self._draft.add, piece)

    def tool(self) -> None:
        """What follows is another text."""
        if self._draft is not None:
            self._loop.call_soon_threadsafe(self._draft.begin_again)

    def finish(self) -> str | None:
        """Show nothing more; return the message that the reply replaces."""
        if self._draft is None:
            return self._left
        future = asyncio.run_coroutine_threadsafe(self._draft.finish(), self._loop)
        try:
            return future.result(_PATIENCE)
        except FutureTimeout:
            return self._draft.message_id

    def leave(self, *, is_over: bool) -> None:
        """No reply replaces it, if *is_over* for good: show it as it is, without the sign that more
        is to come.
        """
        if self._draft is not None and not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._leave(self._draft, is_over), self._loop)

    async def _leave(self, draft: Draft, is_over: bool) -> None:
        # Here, so that it is at hand until that is done.
        await draft.leave(is_over=is_over)


class _Note:
    """Remembers in the store which message shows a turn's draft; see `DraftRecord`."""

    def __init__(self, drafts: Drafts, target: Target, turn: Turn) -> None:
        self._drafts = drafts
        self._target = target
        self._turn = turn

    async def shown(self, message_id: str) -> bool:
        """See `DraftRecord.shown`. It is decoration: the turn does not fail with it."""
        turn = self._turn
        shown = reply_to(
            self._target, "", lane_id=turn.lane_id, turn_id=turn.id, draft_id=message_id
        )
        try:
            return await asyncio.to_thread(self._drafts.note, shown)
        except StoreError as error:
            logger.info("it is not remembered where a draft is shown: %s", error)
            return False

    async def is_ours(self, *, is_over: bool) -> bool:
        """See `DraftRecord.is_ours`."""
        try:
            if is_over:
                return await asyncio.to_thread(self._drafts.forget, self._turn.id)
            return await asyncio.to_thread(self._drafts.of_turn, self._turn.id) is not None
        except StoreError as error:
            logger.info("it is not known whose a draft is: %s", error)
            return False


async def _tell(adapter: Adapter, target: Target, text: str, key: str) -> None:
    try:
        await adapter.send(target, text, key=key)
    except PlatformError as error:
        logger.info("a word about a turn was not delivered: %s", error)
