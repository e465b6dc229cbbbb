"""The progress of messages, for clients that wait for an answer and drafts that grow."""

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
from hermes_sessions.storage.store_context import StoreContext

# ── stored outcomes ───────────────────────────────────────────────────────────────────────────
# Progress is only published in the process that runs the turn. If several gateways share a
# database, that may be another process; and a client may ask about an old message. The outcome is
# in the store in every case.


logger = Logger(__name__)

#: Seconds without progress after which the store is asked.
LOOK_EVERY: Final = 2.0
#: The first time earlier: the message may have ended long ago.
_FIRST_LOOK: Final = 0.1


@runtime_checkable
class HasStore(Protocol):
    """Services of a gateway that has a store."""

    @property
    def store(self) -> SessionStore:
        """The lanes and their sessions."""


class StoredOutcomes:
    """The outcomes of messages in the store."""

    def __init__(self, store: StoreContext) -> None:
        self._store = store

    def find(self, item_id: int) -> Progress | None:
        """Return the outcome of a message with its reply; None while it waits or runs.

        A message that is not in the store any more counts as ``dropped``.

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
    """Return the outcome of a message from its stored status and reason."""
    if status != "done":
        return "dropped"
    if reason == "completed" or (reason or "").startswith("/"):
        return "completed"
    # Any other one was stopped, reset, superseded or interrupted.
    return "failed" if reason == "failed" else "interrupted"


async def live_or_stored_progress(
    progress: AsyncIterator[Progress],
    find: Callable[[], Progress | None],
    *,
    every: float = LOOK_EVERY,
) -> AsyncIterator[Progress]:
    """Yield published progress, and the outcome as soon as it is published or stored."""
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
            # Prefer the published outcome: all earlier progress came before it.
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
        logger.info("cannot read the outcome of a message yet: %s", error)
        return None


def unsent_lookup(services: Services) -> Callable[[Target], bool]:
    """Return a function that tells whether a reply to a chat is still unsent; without a store, it
    always says no.
    """
    if not isinstance(services, HasStore):
        return lambda _target: False
    deps = services.store.engine
    outbox = Outbox(deps.store, deps.namespace)
    return lambda target: outbox.has_unsent(target.platform, chat_of(target))


def progress_watcher(services: Services) -> Callable[[int], AsyncIterator[Progress]]:
    """Return a function that watches messages by their progress and, if there is a store, by it."""
    if not isinstance(services, HasStore):
        return services.watch
    endings = StoredOutcomes(services.store.engine.store)
    return lambda item_id: live_or_stored_progress(
        services.watch(item_id), lambda: endings.find(item_id)
    )


#: The most outcomes that are remembered for clients that watch after the end.
_REMEMBERED: Final = 1_000
#: The most characters of these together; the store has the rest.
_REMEMBERED_TEXT: Final = 2_000_000
#: The most characters and messages that are remembered of running turns, for clients that start to
#: watch in the middle. Only turns that were lost without an end could reach this limit.
_RUNNING_TEXT: Final = 8_000_000
_RUNNING: Final = 10_000
#: Pieces of text are joined up to this length, to keep their number low.
_PIECE: Final = 4_000
#: The most events in the queue of a slow watcher before pieces of text are left out.
_MOST_WAITING: Final = 10_000


class ProgressHub:
    """Publishes progress by mailbox item.

    Thread-safe to publish; watched on one event loop. Publishing never blocks. A client that starts
    to watch during a turn gets all its progress from the beginning.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._watchers: dict[int, list[asyncio.Queue[Progress]]] = {}
        self._running: OrderedDict[int, list[Progress]] = OrderedDict()
        self._ended: OrderedDict[int, Progress] = OrderedDict()
        self._characters = self._running_characters = 0

    def publish(self, item_ids: Iterable[int], progress: Progress) -> None:
        """Publish progress to the watchers of these items."""
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
            self._loop.call_soon_threadsafe(_put, queues, progress)

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
        """Return the items that have watchers."""
        with self._lock:
            return tuple(self._watchers)

    async def watch(self, item_id: int) -> AsyncIterator[Progress]:
        """Yield the progress of an item until its end; at once if it has ended."""
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


def _put(queues: list[asyncio.Queue[Progress]], progress: Progress) -> None:
    for queue in queues:
        if progress.kind == "ended" or queue.qsize() < _MOST_WAITING:
            queue.put_nowait(progress)


# ── pending replies ───────────────────────────────────────────────────────────────────────────
# If several gateways share a database, the gateway that is connected to a chat may not run its
# turn, and the two cannot call each other. So the connected one polls the store for the outcome of
# messages that it received, and only while there are any.

#: Only this many of the latest messages are polled.
_MAX_PENDING: Final = 5_000
#: The most messages in one query.
_AT_ONCE: Final = 500


class PendingReplies:
    """The messages that one gateway received and whose outcome it does not know. Thread-safe."""

    def __init__(
        self, store: StoreContext, runs_here: Callable[[], Collection[int]] = frozenset[int]
    ) -> None:
        """*runs_here* returns the items of turns in this process, whose outcome is published here
        without polling.
        """
        self._store = store
        self._runs_here = runs_here
        self._lock = threading.Lock()
        self._item_ids: OrderedDict[int, None] = OrderedDict()

    def add(self, item_id: int) -> None:
        """Wait for the outcome of a message."""
        with self._lock:
            self._item_ids[item_id] = None
            if len(self._item_ids) > _MAX_PENDING:
                self._item_ids.popitem(last=False)

    def ended(self, item_ids: Iterable[int]) -> None:
        """Stop waiting for these: they ended in this process."""
        with self._lock:
            for item_id in item_ids:
                self._item_ids.pop(item_id, None)

    def has_ended(self) -> bool:
        """Return whether a message has ended since, in any process: its reply, if any, is in the
        outbox. The store is not asked while no message is waited for.

        Raises:
            StoreError: the store cannot be read.
        """
        here = set(self._runs_here())
        with self._lock:
            waited_for = [item_id for item_id in self._item_ids if item_id not in here]
        if not waited_for:
            return False
        going_on = self._unfinished(waited_for)
        over = [item_id for item_id in waited_for if item_id not in going_on]
        self.ended(over)
        return bool(over)

    def _unfinished(self, item_ids: list[int]) -> set[int]:
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
