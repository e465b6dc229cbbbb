"""What becomes of calls whose caller is gone, and how a handle ends."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from hermes_sessions import AsyncSessionDB, InvalidInput, SessionDB, StoreClosed
from tests.storage.async_db.stores import (
    OpenStore,
    TellingClock,
    Unfinished,
    contents,
    our_threads,
    turns,
    written_to,
)


async def require_cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def values_of(open_store: OpenStore) -> tuple[str | None, str | None]:
    with open_store() as db:
        session = db.get_session("s")
    assert session is not None
    return session["user_id"], session["model"]


class TestCancelledCalls:
    def test_the_caller_is_free_at_once_and_the_write_is_done(
        self, open_store: OpenStore, clock: TellingClock
    ) -> None:
        async def main() -> None:
            async with AsyncSessionDB(open_store(clock=clock)) as db:
                with open_store() as other, written_to(other):
                    waiting = await clock.begun(lambda: db.append_message("s", "user", "late"))
                    # The lock is held until this has returned.
                    await require_cancelled(waiting)

        asyncio.run(main())
        with open_store() as db:
            assert contents(db.get_messages("s")) == ["late"]

    def test_a_call_that_had_not_begun_never_runs(self, open_store: OpenStore) -> None:
        async def main() -> None:
            async with AsyncSessionDB(open_store(), threads=1) as db:
                unfinished = Unfinished(db)
                first = await unfinished.begin()
                second = asyncio.create_task(db.append_message("s", "user", "never"))
                third = asyncio.create_task(db.append_message("s", "user", "kept"))
                await turns()
                await require_cancelled(second)
                unfinished.release()
                await asyncio.gather(first, third)

        asyncio.run(main())
        with open_store() as db:
            assert contents(db.get_messages("s")) == ["kept"]

    def test_a_timeout_is_a_cancelled_call(
        self, open_store: OpenStore, clock: TellingClock
    ) -> None:
        async def append_in_time(db: AsyncSessionDB) -> None:
            async with asyncio.timeout(None) as deadline:
                clock.next_look(lambda: deadline.reschedule(0))
                await db.append_message("s", "user", "late")

        async def main() -> None:
            async with AsyncSessionDB(open_store(clock=clock)) as db:
                with open_store() as other, written_to(other), pytest.raises(TimeoutError):
                    await append_in_time(db)
                await db.append_message("s", "user", "after")

        asyncio.run(main())
        with open_store() as db:
            assert sorted(contents(db.get_messages("s"))) == ["after", "late"]

    def test_a_transaction_that_is_left_alone_is_committed_as_a_whole(
        self, open_store: OpenStore
    ) -> None:
        async def main() -> None:
            async with AsyncSessionDB(open_store()) as db:
                unfinished = Unfinished(db)
                await require_cancelled(await unfinished.begin())
                assert values_of(open_store) == (None, None)
                unfinished.release()
                # The connection it used is as good as any other.
                await asyncio.gather(*(db.append_message("s", "user", "x") for _ in range(20)))

        asyncio.run(main())
        assert values_of(open_store) == ("first", "second")

    def test_one_that_fails_leaves_nothing_behind(
        self, open_store: OpenStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def main() -> None:
            async with AsyncSessionDB(open_store()) as db:
                unfinished = Unfinished(db, InvalidInput("too late"))
                await require_cancelled(await unfinished.begin())
                unfinished.release()
                await asyncio.gather(*(db.append_message("s", "user", "x") for _ in range(20)))

        with caplog.at_level(logging.INFO, "hermes_sessions.storage.async_handle"):
            asyncio.run(main())
        assert values_of(open_store) == (None, None)
        assert "a call failed after it had been cancelled: too late" in caplog.messages


async def revision_of(db: AsyncSessionDB) -> int:
    session = await db.get_session("s")
    assert session is not None
    return session["revision"]


#: Changes of the end of a transcript and of state, and by how much they raise the revision.
Change = Callable[[AsyncSessionDB], Coroutine[Any, Any, object]]
CHANGES: dict[str, tuple[Change, int]] = {
    "pop": (lambda db: db.pop_message("s"), 1),
    "soft clear": (lambda db: db.clear_messages("s", soft=True), 1),
    "replace the end": (
        lambda db: db.replace_suffix(
            "s", expected_revision=3, keep=1, messages=[{"role": "user", "content": "new"}] * 2
        ),
        3,
    ),
    "state": (lambda db: db.set_state("session", "s", "a", 1, expected_revision=0), 1),
}


@pytest.mark.parametrize(("change", "by"), CHANGES.values(), ids=CHANGES)
class TestRevisionTells:
    """A cancelled change took place or did not, and the revision tells which."""

    def test_one_that_had_begun_takes_place(
        self, open_store: OpenStore, clock: TellingClock, change: Change, by: int
    ) -> None:
        with open_store() as db:
            db.append_messages("s", [{"role": "user", "content": "x"}] * 3)

        async def main() -> int:
            async with AsyncSessionDB(open_store(clock=clock)) as db:
                with open_store() as other, written_to(other):
                    await require_cancelled(await clock.begun(lambda: change(db)))
            async with AsyncSessionDB(open_store()) as db:
                return await revision_of(db)

        assert asyncio.run(main()) == 3 + by

    def test_one_that_had_not_begun_does_not(
        self, open_store: OpenStore, change: Change, by: int
    ) -> None:
        with open_store() as db:
            db.append_messages("s", [{"role": "user", "content": "x"}] * 3)

        async def main() -> tuple[int, int]:
            async with AsyncSessionDB(open_store(), threads=1) as db:
                unfinished = Unfinished(db)
                first = await unfinished.begin()
                queued = asyncio.create_task(change(db))
                await turns()
                await require_cancelled(queued)
                unfinished.release()
                await first
                before = await revision_of(db)
                await change(db)
                return before, await revision_of(db)

        assert asyncio.run(main()) == (3, 3 + by)


class TestClosing:
    def test_it_waits_for_calls_in_flight_and_takes_no_more(self, open_store: OpenStore) -> None:
        async def main() -> None:
            db = AsyncSessionDB(open_store(), threads=1)
            unfinished = Unfinished(db)
            running = await unfinished.begin()
            queued = asyncio.create_task(db.append_message("s", "user", "queued"))
            await turns()
            closing = [asyncio.create_task(db.close()) for _ in range(2)]
            await turns()
            assert not any(task.done() for task in (running, queued, *closing))
            with pytest.raises(StoreClosed):
                await db.get_session("s")
            unfinished.release()
            await asyncio.gather(running, queued, *closing)
            await db.close()

        asyncio.run(main())
        with open_store() as db:
            assert contents(db.get_messages("s")) == ["queued"]

    def test_it_waits_for_calls_that_were_cancelled(self, open_store: OpenStore) -> None:
        async def main() -> None:
            db = AsyncSessionDB(open_store())
            unfinished = Unfinished(db)
            await require_cancelled(await unfinished.begin())
            closing = asyncio.create_task(db.close())
            await turns()
            assert not closing.done()
            unfinished.release()
            await closing

        asyncio.run(main())
        assert values_of(open_store) == ("first", "second")

    def test_a_cancelled_close_continues(self, open_store: OpenStore) -> None:
        store = open_store()

        async def main() -> None:
            db = AsyncSessionDB(store)
            unfinished = Unfinished(db)
            await require_cancelled(await unfinished.begin())
            closing = asyncio.create_task(db.close())
            await turns()
            await require_cancelled(closing)
            unfinished.release()
            await db.close()

        asyncio.run(main())
        with pytest.raises(StoreClosed):
            store.session_count()

    def test_a_loop_that_ends_with_calls_in_flight(self, open_store: OpenStore) -> None:
        """The loop cancels them and is gone before they end."""

        async def main() -> tuple[AsyncSessionDB, Unfinished]:
            db = AsyncSessionDB(open_store())
            unfinished = Unfinished(db)
            await unfinished.begin()
            return db, unfinished

        db, unfinished = asyncio.run(main())
        unfinished.release()
        asyncio.run(db.close())
        assert values_of(open_store) == ("first", "second")

    def test_a_store_that_was_closed(self) -> None:
        store = SessionDB(":memory:")
        store.close()
        with pytest.raises(StoreClosed):
            AsyncSessionDB(store)


class TestInterruptsWhileThreadsStart:
    """Ctrl-C may come when a thread runs already and its executor has not noted it."""

    @pytest.fixture
    def interrupted(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
        """Lets Ctrl-C come right after the next start of a thread."""
        start = threading.Thread.start

        def start_and_interrupt(thread: threading.Thread) -> None:
            monkeypatch.setattr(threading.Thread, "start", start)
            start(thread)
            raise KeyboardInterrupt

        return lambda: monkeypatch.setattr(threading.Thread, "start", start_and_interrupt)

    def test_a_call(self, open_store: OpenStore, interrupted: Callable[[], None]) -> None:
        async def main() -> None:
            async with AsyncSessionDB(open_store()) as db:
                interrupted()
                with pytest.raises(KeyboardInterrupt):
                    await db.get_session("s")
                for thread in our_threads():
                    thread.join()  # Or the process could not end.
                await db.append_message("s", "user", "after")

        asyncio.run(main())
        with open_store() as db:
            assert contents(db.get_messages("s")) == ["after"]

    def test_closing(self, open_store: OpenStore, interrupted: Callable[[], None]) -> None:
        store = open_store()

        async def main() -> None:
            db = AsyncSessionDB(store)
            await db.append_message("s", "user", "before")
            interrupted()
            with pytest.raises(KeyboardInterrupt):
                await db.close()
            await db.close()

        asyncio.run(main())
        for thread in our_threads():
            thread.join()
        with pytest.raises(StoreClosed):
            store.session_count()
