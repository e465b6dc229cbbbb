"""What other processes do in the tests of `AsyncSessionDB`.

python -m tests.storage.async_db.programs append_until_interrupted /some/where/state.db 120
"""

from __future__ import annotations

import asyncio
import os
import sys

from hermes_sessions import AsyncSessionDB, SessionDB
from tests.storage.async_db.stores import TellingClock


def say(*words: object) -> None:
    print(*words, flush=True)


def append_until_interrupted(path: str, lock_timeout: str) -> None:
    """Append a message while another process holds the lock; leave the handle when interrupted."""

    async def main() -> None:
        clock = TellingClock()
        store = SessionDB(path, lock_timeout=float(lock_timeout), clock=clock)
        async with AsyncSessionDB(store) as db, asyncio.TaskGroup() as group:
            ticking = group.create_task(tick())
            try:
                clock.next_look(lambda: say("waiting"))
                await db.append_message("s", "user", "late")
            except asyncio.CancelledError:
                say("cancelled")
                raise
            finally:
                ticking.cancel()

    asyncio.run(main())


async def tick() -> None:
    """Wake the loop now and then: Python does not notice a signal that comes right before it begins
    to wait for something.
    """
    while True:  # noqa: ASYNC110 - it waits for nothing
        await asyncio.sleep(0.05)


def append_and_forget(path: str, lock_timeout: str) -> None:
    """Append a message while another process holds the lock, and end without closing anything."""

    async def main() -> None:
        clock = TellingClock()
        db = AsyncSessionDB(SessionDB(path, lock_timeout=float(lock_timeout), clock=clock))
        call = await clock.begun(lambda: db.append_message("s", "user", "late"))
        say("waiting")
        call.cancel()

    asyncio.run(main())
    say("the loop has ended")


def fork(path: str) -> None:
    """Use one handle before a fork and in both processes after it."""
    db = AsyncSessionDB(SessionDB(path))

    async def append(text: str) -> None:
        await db.append_message("s", "user", text)

    asyncio.run(append("before"))
    child = os.fork()
    asyncio.run(append("parent" if child else "child"))
    asyncio.run(db.close())
    if child:
        assert os.waitpid(child, 0)[1] == 0


def main() -> None:
    program, *arguments = sys.argv[1:]
    globals()[program](*arguments)


if __name__ == "__main__":
    main()
