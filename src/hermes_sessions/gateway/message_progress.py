"""What happens to a message, for those who watch: a client that waits, a draft that grows."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Final

from hermes_sessions.gateway.platforms.port import Progress

#: Outcomes that are remembered for those who begin to watch after the end.
_REMEMBERED: Final = 1_000
#: How many characters these may have together; more are in the store.
_REMEMBERED_TEXT: Final = 2_000_000
#: What is remembered of turns that run, for those who begin to watch in the middle: characters, and
#: messages. There is less of it, unless turns were lost that nobody ends.
_RUNNING_TEXT: Final = 8_000_000
_RUNNING: Final = 10_000
#: Pieces of a text are remembered as one up to this length, so that there are not too many.
_PIECE: Final = 4_000
#: What a watcher that does not read may have waiting before text is left out.
_MOST_WAITING: Final = 10_000


class ProgressHub:
    """Passes on progress by the numbers of mailbox items.

    Published from any thread, watched on one event loop. Nobody is waited for. Whoever begins to
    watch while a turn runs is told all of it, from its beginning.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._watchers: dict[int, list[asyncio.Queue[Progress]]] = {}
        self._running: OrderedDict[int, list[Progress]] = OrderedDict()
        self._ended: OrderedDict[int, Progress] = OrderedDict()
        self._characters = self._running_characters = 0

    def publish(self, item_ids: Iterable[int], progress: Progress) -> None:
        """Tell whoever watches one of these items."""
        queues: list[asyncio.Queue[Progress]] = []
        with self._lock:
            for item_id in item_ids:
                queues += self._watchers.get(item_id, ())
                if progress.kind == "ended":
                    self._forget_running(item_id)
                    self._remember(item_id, progress)
                else:
                    self._remember_running(item_id, progress)
        if queues and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_give, queues, progress)

    def _remember_running(self, item_id: int, progress: Progress) -> None:
        told = self._running.setdefault(item_id, [])
        last = told[-1] if told else None
        is_text = progress.kind in {"text", "reasoning"}
        if last and is_text and last.kind == progress.kind and len(last.text) < _PIECE:
            told[-1] = replace(last, text=last.text + progress.text)
        else:
            told.append(progress)
        self._running_characters += len(progress.text)
        while len(self._running) > 1 and (
            len(self._running) > _RUNNING or self._running_characters > _RUNNING_TEXT
        ):
            self._forget_running(next(iter(self._running)))

    def _forget_running(self, item_id: int) -> None:
        told = self._running.pop(item_id, ())
        self._running_characters -= sum(len(each.text) for each in told)

    def _remember(self, item_id: int, progress: Progress) -> None:
        before = self._ended.pop(item_id, None)
        self._characters += len(progress.text) - (len(before.text) if before else 0)
        self._ended[item_id] = progress
        while len(self._ended) > 1 and (
            len(self._ended) > _REMEMBERED or self._characters > _REMEMBERED_TEXT
        ):
            self._characters -= len(self._ended.popitem(last=False)[1].text)

    def watched(self) -> tuple[int, ...]:
        """Return the items that somebody waits for."""
        with self._lock:
            return tuple(self._watchers)

    async def watch(self, item_id: int) -> AsyncIterator[Progress]:
        """Yield what happens to an item until it ended; the end at once if that was before."""
        queue: asyncio.Queue[Progress] = asyncio.Queue()
        with self._lock:
            ended = self._ended.get(item_id)
            if ended is None:
                for progress in self._running.get(item_id, ()):
                    queue.put_nowait(progress)
                self._watchers.setdefault(item_id, []).append(queue)
        if ended is not None:
            yield ended
            return
        try:
            while True:
                progress = await queue.get()
                yield progress
                if progress.kind == "ended":
                    return
        finally:
            with self._lock:
                watchers = self._watchers[item_id]
                watchers.remove(queue)
                if not watchers:
                    del self._watchers[item_id]


def _give(queues: list[asyncio.Queue[Progress]], progress: Progress) -> None:
    for queue in queues:
        if progress.kind == "ended" or queue.qsize() < _MOST_WAITING:
            queue.put_nowait(progress)
