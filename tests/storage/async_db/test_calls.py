"""Calls of `AsyncSessionDB`: in threads of its own, which are few, and end with it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path

import pytest

from hermes_sessions import (
    AsyncSessionDB,
    InvalidInput,
    SessionDB,
    StoreClosed,
    StoreReadOnly,
    StoreUnavailable,
    UnknownSession,
)
from tests.storage.async_db.stores import (
    OpenStore,
    TellingClock,
    contents,
    our_threads,
    turns,
    written_to,
)

asked_by: ContextVar[str] = ContextVar("asked_by", default="nobody")


def test_verbs_return_and_raise_what_those_of_the_store_do(open_store: OpenStore) -> None:
    async def main() -> None:
        async with AsyncSessionDB(open_store()) as db:
            first = await db.append_message("s", role="user", content="hello")
            assert contents(await db.get_messages("s")) == ["hello"]
            assert (await db.search("hello")).hits[0].id == first
            await db.end_session("s", "done")
            assert db.provider.name in ("sqlite", "postgresql", "mysql")
            assert db.sanitize_title("  a  title ") == "a title"
            with pytest.raises(UnknownSession):
                await db.append_message("nobody", role="user", content="?")

    asyncio.run(main())


def test_the_loop_goes_on_while_a_call_waits_for_a_lock(
    open_store: OpenStore, clock: TellingClock
) -> None:
    async def main() -> None:
        async with AsyncSessionDB(open_store(clock=clock)) as db:
            with open_store() as other, written_to(other):
                waiting = await clock.begun(lambda: db.append_message("s", "user", "late"))
                await turns()
                # Other calls have threads of their own.
                assert contents(await db.get_messages("s")) == []
                assert not waiting.done()
            await waiting
            assert contents(await db.get_messages("s")) == ["late"]

    asyncio.run(main())


def test_many_calls_at_a_time_are_each_done_once(open_store: OpenStore) -> None:
    async def main() -> None:
        async with AsyncSessionDB(open_store()) as db:
            texts = [f"message {number}" for number in range(40)]
            ids = await asyncio.gather(*(db.append_message("s", "user", text) for text in texts))
            stored = await db.get_messages("s")
            assert sorted(contents(stored)) == sorted(texts)
            assert {message["id"] for message in stored} == set(ids)

    asyncio.run(main())


class TestThreads:
    def test_they_start_with_the_first_call_and_end_with_the_handle(self, tmp_path: Path) -> None:
        async def main() -> None:
            db = AsyncSessionDB(SessionDB(tmp_path / "state.db"))
            assert our_threads() == []
            await db.create_session("s", "test")
            [thread] = our_threads()
            assert thread.name.startswith("hermes-sessions-async")
            await db.close()
            assert not thread.is_alive()

        asyncio.run(main())
        for thread in our_threads():
            thread.join()  # The one that closed may be about to end.

    def test_there_are_no_more_than_asked_for(self, tmp_path: Path) -> None:
        both_run = threading.Barrier(2)

        def meet() -> str:
            both_run.wait()
            return threading.current_thread().name

        async def main() -> set[str]:
            async with AsyncSessionDB(SessionDB(tmp_path / "state.db"), threads=2) as db:
                # Six calls on two threads: they meet in pairs.
                return set(await asyncio.gather(*(db._call(meet) for _ in range(6))))

        assert len(asyncio.run(main())) == 2

    def test_an_unclosed_handle_ends_its_threads(self, tmp_path: Path) -> None:
        async def main() -> threading.Thread:
            db = AsyncSessionDB(SessionDB(tmp_path / "state.db"))
            await db.create_session("s", "test")
            [thread] = our_threads()
            return thread

        thread = asyncio.run(main())
        thread.join()

    def test_a_number_that_makes_no_sense(self) -> None:
        with SessionDB(":memory:") as db, pytest.raises(InvalidInput, match="threads is 0"):
            AsyncSessionDB(db, threads=0)

    def test_a_call_for_which_there_is_none_fails_and_never_runs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        async def main() -> None:
            async with AsyncSessionDB(SessionDB(tmp_path / "state.db")) as db:
                with monkeypatch.context() as exhausted:
                    exhausted.setattr(threading.Thread, "start", refuse)
                    with pytest.raises(StoreUnavailable, match="can't start new thread"):
                        await db.create_session("refused", "test")
                await db.create_session("later", "test")
                assert await db.find_session_ids("") == ["later"]

        asyncio.run(main())

    def test_one_that_runs_takes_a_call_that_gets_none_of_its_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        finish, taken = threading.Event(), threading.Event()

        def refuse(thread: threading.Thread) -> None:
            finish.set()
            taken.wait()
            raise RuntimeError("can't start new thread")

        async def main() -> None:
            async with AsyncSessionDB(SessionDB(tmp_path / "state.db")) as db:
                running = asyncio.create_task(db._call(finish.wait))
                await turns()
                with monkeypatch.context() as exhausted:
                    exhausted.setattr(threading.Thread, "start", refuse)
                    await db._call(taken.set)
                await running

        asyncio.run(main())
        assert taken.is_set()

    def test_context_variables_reach_them(self, tmp_path: Path) -> None:
        seen = []

        def clock() -> float:
            seen.append(asked_by.get())
            return 1.0

        async def main() -> None:
            async with AsyncSessionDB(SessionDB(tmp_path / "state.db", clock=clock)) as db:
                asked_by.set("anna")
                await db.create_session("s", "test")

        asyncio.run(main())
        assert set(seen) == {"anna"}


def test_a_handle_serves_one_loop_after_the_other(open_store: OpenStore) -> None:
    db = AsyncSessionDB(open_store())
    asyncio.run(_append(db, "one"))
    asyncio.run(_append(db, "two"))
    assert contents(asyncio.run(_messages(db))) == ["one", "two"]
    asyncio.run(db.close())


async def _append(db: AsyncSessionDB, text: str) -> None:
    await db.append_message("s", "user", text)


async def _messages(db: AsyncSessionDB) -> list[dict[str, object]]:
    return await db.get_messages("s")


class TestOpening:
    def test_by_path_and_with_options(self, tmp_path: Path) -> None:
        async def main() -> None:
            async with await AsyncSessionDB.open(tmp_path / "state.db", threads=1) as db:
                await db.create_session("s", "test")
            async with await AsyncSessionDB.open(tmp_path / "state.db", read_only=True) as db:
                assert await db.session_count() == 1
                with pytest.raises(StoreReadOnly):
                    await db.create_session("t", "test")

        asyncio.run(main())

    def test_in_a_block_that_closes_it(self, tmp_path: Path) -> None:
        async def main() -> None:
            async with AsyncSessionDB.open(tmp_path / "state.db") as db:
                session_id = await db.create_session(source="test")
            with pytest.raises(StoreClosed):
                await db.session_count()
            url = f"sqlite:///{tmp_path}/state.db"
            with suppress(ZeroDivisionError):
                async with AsyncSessionDB.from_url(url) as db:
                    assert await db.get_session(session_id) is not None
                    _ = 1 / 0
            with pytest.raises(StoreClosed):
                await db.session_count()

        asyncio.run(main())

    def test_as_a_coroutine(self, tmp_path: Path) -> None:
        async def main() -> None:
            task = asyncio.create_task(AsyncSessionDB.open(tmp_path / "state.db"))
            async with await task as db:
                assert await db.session_count() == 0
            with pytest.raises(InvalidInput):
                async with asyncio.timeout(10), AsyncSessionDB.from_url("nonsense"):
                    pass
            cancelled = asyncio.create_task(AsyncSessionDB.open(tmp_path / "other.db"))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled

        asyncio.run(main())
        handle = asyncio.run(AsyncSessionDB.open(tmp_path / "state.db"))
        asyncio.run(handle.close())

    def test_by_url(self, tmp_path: Path) -> None:
        async def main() -> None:
            url = f"sqlite:///{tmp_path}/state.db"
            async with await AsyncSessionDB.from_url(url, max_message_bytes=10) as db:
                assert (await db.describe())["path"] == str(tmp_path / "state.db")

        asyncio.run(main())

    def test_what_the_configuration_says(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HERMES_HOME", str(tmp_path))

        async def main() -> None:
            async with await AsyncSessionDB.open() as db:
                assert (await db.describe())["path"] == str(tmp_path / "state.db")

        asyncio.run(main())

    def test_that_fails(self, tmp_path: Path) -> None:
        async def main() -> None:
            with pytest.raises(InvalidInput, match="lock_timeout"):
                await AsyncSessionDB.open(tmp_path / "state.db", lock_timeout=-1.0)
            with pytest.raises(InvalidInput, match="looks like"):
                await AsyncSessionDB.from_url("nonsense")

        asyncio.run(main())

    def test_that_is_cancelled_closes_what_it_opened(self, open_store: OpenStore) -> None:
        opened: list[SessionDB] = []
        release = threading.Event()

        async def main() -> None:
            loop, begun = asyncio.get_running_loop(), asyncio.Event()

            def make() -> SessionDB:
                loop.call_soon_threadsafe(begun.set)
                release.wait()
                opened.append(open_store())
                return opened[0]

            opening = asyncio.create_task(AsyncSessionDB._open(1, make))
            await begun.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening

        asyncio.run(main())
        release.set()
        for thread in our_threads():
            thread.join()
        with pytest.raises(StoreClosed):
            opened[0].session_count()
