"""How messages ended, by whichever gateway: for those who wait for one.

Progress is heard only in the process that runs the turn. Where several gateways share a database,
that may be another one; and who asks about a message of yesterday has missed it. The end is in the
store, whoever wrote it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol, runtime_checkable

from hermes_sessions.errors import StoreError
from hermes_sessions.gateway.delivery import chat_of
from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.port import EndOutcome, Progress, Services
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.repositories.drafts import DRAFT
from hermes_sessions.storage.repositories.outbox import Outbox
from hermes_sessions.storage.store import Store

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


class Endings:
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


async def heard_or_stored(
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


def unsent_of(services: Services) -> Callable[[Target], bool]:
    """Return how to tell whether something is still to be sent to a chat; without a store, nothing
    is known to be.
    """
    if not isinstance(services, HasStore):
        return lambda _target: False
    engine = services.store.engine
    outbox = Outbox(engine.store, engine.namespace)
    return lambda target: outbox.has_unsent(target.platform, chat_of(target))


def watcher_of(services: Services) -> Callable[[int], AsyncIterator[Progress]]:
    """Return how to watch messages: by what is heard, and where there is a store, by that, too."""
    if not isinstance(services, HasStore):
        return services.watch
    endings = Endings(services.store.engine.store)
    return lambda item_id: heard_or_stored(services.watch(item_id), lambda: endings.find(item_id))
