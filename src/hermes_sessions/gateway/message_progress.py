"""What happens to a message, for those who watch: a client that waits, a draft that grows."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, Final, Protocol, runtime_checkable

from hermes_sessions.errors import StoreError
from hermes_sessions.gateway.delivery import chat_of
from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.port import EndOutcome, Progress, Services
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import placeholders
from hermes_sessions.storage.repositories.outbox import DRAFT, Outbox
from hermes_sessions.storage.store import Store

# How messages ended, by whichever gateway: for those who wait for one.
#
# Progress is heard only in the process that runs the turn. Where several gateways share a
# database, that may be another one; and who asks about a message of yesterday has missed it. The
# end is in the store, whoever wrote it.


logger = Logger(__name__)

#: Seconds of silence after which the store is asked.
LOOK_EVERY: Final = 2.0
#: The first time earlier: it may have ended long ago.
_FIRST_LOOK: Final = 0.1


@runtime_checkable
class HasStore(Protocol):
    """Services of a gateway that has a store."""

    @property
    def store(self) -> SessionStore:
        """The lanes and their sessions."""


class StoredOutcomes:
    """The ends of messages, in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, item_id: int) -> Progress | None:
        """Return how a message ended, with the reply; None while it waits or runs.

        One that is no longer remembered has ended as ``dropped``.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._store.provider.read() as tx:
            row = tx.one("SELECT status, reason, turn_id FROM mailbox WHERE id = ?", (item_id,))
            if row is None or row[0] == "dropped":
                return Progress("ended", outcome="dropped")
            status, reason, turn_id = row
            if status != "done":
                return None
            replies = tx.all(
                "SELECT text FROM outbox WHERE turn_id = ? AND status <> ? ORDER BY id",
                (turn_id, DRAFT),
            )
        said = "\n\n".join(text for (text,) in replies)
        return Progress("ended", said, outcome=outcome_of(status, reason))


def outcome_of(status: str, reason: str | None) -> EndOutcome:
    """Return how a message ended, from what is stored about it."""
    if status != "done":
        return "dropped"
    if reason == "completed" or (reason or "").startswith("/"):
        return "completed"
    # Else it was stopped, reset, superseded or interrupted.
    return "failed" if reason == "failed" else "interrupted"


async def live_or_stored_progress(
    progress: AsyncIterator[Progress],
    find: Callable[[], Progress | None],
    *,
    every: float = LOOK_EVERY,
) -> AsyncIterator[Progress]:
    """Yield what is heard, and the end as soon as it is heard or stored."""
    following: asyncio.Future[Any] = asyncio.ensure_future(anext(progress, None))
    pause = min(every, _FIRST_LOOK)
    try:
        while True:
            await asyncio.wait({following}, timeout=pause)
            pause = every
            if following.done():
                happened = following.result()
                if happened is None:
                    return
                yield happened
                if happened.kind == "ended":
                    return
                following = asyncio.ensure_future(anext(progress, None))
                continue
            ended = await _found(find)
            # Heard is better: it came with everything before it.
            if ended is not None and not following.done():
                yield ended
                return
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        close = getattr(progress, "aclose", None)
        if close is not None:
            await close()


async def _found(find: Callable[[], Progress | None]) -> Progress | None:
    try:
        return await asyncio.to_thread(find)
    except StoreError as error:
        logger.info("it is not known yet how a message ended: %s", error)
        return None


def unsent_lookup(services: Services) -> Callable[[Target], bool]:
    """Return how to tell whether something is still to be sent to a chat; without a store, nothing
    is known to be.
    """
    if not isinstance(services, HasStore):
        return lambda _target: False
    engine = services.store.engine
    outbox = Outbox(engine.store, engine.namespace)
    return lambda target: outbox.has_unsent(target.platform, chat_of(target))


def progress_watcher(services: Services) -> Callable[[int], AsyncIterator[Progress]]:
    """Return how to watch messages: by what is heard, and where there is a store, by that, too."""
    if not isinstance(services, HasStore):
        return services.watch
    endings = StoredOutcomes(services.store.engine.store)
    return lambda item_id: live_or_stored_progress(
        services.watch(item_id), lambda: endings.find(item_id)
    )


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


# Messages that this gateway took and whose answers it has not seen: another may be writing them.
#
# Where several gateways share a database, the one that a chat is connected to may not be the one
# that runs its turn. Nobody can call from one to the other, so the first looks whether what it
# took has ended: often while there is something to wait for, and not at all while there is
# nothing.

#: Of more messages than this, only the latest are looked for.
_MAX_OUTSTANDING: Final = 5_000
#: So many are asked for at once.
_AT_ONCE: Final = 500


class PendingReplies:
    """The messages of one gateway that have not ended, as far as it knows. Thread-safe."""

    def __init__(
        self, store: Store, runs_here: Callable[[], Collection[int]] = frozenset[int]
    ) -> None:
        """*runs_here* returns the items of turns that run in this process: it hears of their ends
        without looking.
        """
        self._store = store
        self._runs_here = runs_here
        self._lock = threading.Lock()
        self._item_ids: OrderedDict[int, None] = OrderedDict()

    def add(self, item_id: int) -> None:
        """Wait for the answer to a message."""
        with self._lock:
            self._item_ids[item_id] = None
            if len(self._item_ids) > _MAX_OUTSTANDING:
                self._item_ids.popitem(last=False)

    def ended(self, item_ids: Iterable[int]) -> None:
        """Wait for these no longer: they ended in this process."""
        with self._lock:
            for item_id in item_ids:
                self._item_ids.pop(item_id, None)

    def look(self) -> bool:
        """Return whether a message has ended meanwhile, in whatever process: its reply, if it has
        one, is in the outbox. The store is not asked when nothing is waited for.

        Raises:
            StoreError: the store cannot be read.
        """
        here = set(self._runs_here())
        with self._lock:
            waited_for = [item_id for item_id in self._item_ids if item_id not in here]
        if not waited_for:
            return False
        going_on = self._going_on(waited_for)
        over = [item_id for item_id in waited_for if item_id not in going_on]
        self.ended(over)
        return bool(over)

    def _going_on(self, item_ids: list[int]) -> set[int]:
        found: set[int] = set()
        for start in range(0, len(item_ids), _AT_ONCE):
            some = item_ids[start : start + _AT_ONCE]
            with self._store.provider.read() as tx:
                rows = tx.all(
                    f"SELECT id FROM mailbox WHERE id IN ({placeholders(len(some))}) "
                    "AND status IN (?, ?)",
                    (*some, "waiting", "running"),
                )
            found.update(row[0] for row in rows)
        return found
