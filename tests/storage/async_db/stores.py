"""Stores for tests of `AsyncSessionDB`, and ways to hold a call up inside them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from hermes_sessions import AsyncSessionDB, SessionDB
from hermes_sessions.storage.provider import WriteTransaction

#: No run of the tests ever waits that long; a shorter one could end a wait on a busy machine.
PATIENT = 120.0
#: Turns that the event loop makes to show that nothing stops it.
TURNS = 1_000

OpenStore = Callable[..., SessionDB]


class TellingClock:
    """A clock that tells when a verb looks at it: appending does, before it asks for a lock."""

    def __init__(self) -> None:
        self._tell: Callable[[], object] | None = None

    def __call__(self) -> float:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()
        return time.time()

    def next_look(self, tell: Callable[[], object]) -> None:
        """Have *tell* called on the running loop when a verb looks next."""
        loop = asyncio.get_running_loop()
        self._tell = lambda: loop.call_soon_threadsafe(tell)

    async def begun(self, call: Callable[[], Any]) -> asyncio.Task[Any]:
        """Start a call; return its task when the call runs in its thread."""
        begun = asyncio.Event()
        self.next_look(begun.set)
        task = asyncio.create_task(call())
        await begun.wait()
        return task


@contextmanager
def written_to(db: SessionDB) -> Iterator[None]:
    """Keep the session "s" locked by an unfinished write of another thread inside the block."""
    begun, release = threading.Event(), threading.Event()

    def work(tx: WriteTransaction) -> None:
        tx.run("UPDATE sessions SET user_id = ? WHERE id = ?", ("other", "s"))
        begun.set()
        release.wait()

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(db.provider.write, work)
        begun.wait()
        try:
            yield
        finally:
            release.set()
        result.result()


class Unfinished:
    """A unit of work that stays inside its transaction until it is released."""

    def __init__(self, db: AsyncSessionDB, failure: Exception | None = None) -> None:
        self._db = db
        self._failure = failure
        self._release = threading.Event()
        self._begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def begin(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self._db._call(self._db.provider.write, self._work))
        await self._begun.wait()
        return task

    def release(self) -> None:
        self._release.set()

    def _work(self, tx: WriteTransaction) -> None:
        tx.run("UPDATE sessions SET user_id = ? WHERE id = ?", ("first", "s"))
        self._loop.call_soon_threadsafe(self._begun.set)
        self._release.wait()
        if self._failure is not None:
            raise self._failure
        tx.run("UPDATE sessions SET model = ? WHERE id = ?", ("second", "s"))


async def turns() -> None:
    """Let the event loop go round and round."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


def our_threads() -> list[threading.Thread]:
    """The running threads of asynchronous handles."""
    names = tuple(f"hermes-sessions-{purpose}" for purpose in ("async", "open", "close"))
    return [thread for thread in threading.enumerate() if thread.name.startswith(names)]


def contents(messages: list[dict[str, Any]]) -> list[Any]:
    return [message["content"] for message in messages]
