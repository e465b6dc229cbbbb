"""Exports as asynchronous iterators."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import AsyncSessionDB, SessionDB, StoreClosed
from tests.storage.async_db.stores import OpenStore, turns

COUNT = 5


def filled(db: SessionDB) -> AsyncSessionDB:
    for number in range(COUNT):
        db.create_session(f"s{number}", "test")
        db.append_message(f"s{number}", "user", f"message {number}")
    return AsyncSessionDB(db)


def test_every_record_comes_in_order(open_store: OpenStore) -> None:
    async def main() -> None:
        async with filled(open_store()) as db:
            records = [record async for record in db.iter_export("test")]
            assert records == await db.export_all("test")
            assert len(records) == COUNT + 1

    asyncio.run(main())


def test_other_calls_go_on_meanwhile_and_do_not_change_what_is_read(
    open_store: OpenStore,
) -> None:
    async def main() -> None:
        async with filled(open_store()) as db:
            before = await db.export_all()
            records = []
            async for record in db.iter_export():
                records.append(record)
                for number in range(COUNT):
                    await db.append_message(f"s{number}", "user", "more")
            assert records == before

    asyncio.run(main())


def test_in_memory_other_calls_go_on_as_well() -> None:
    async def main() -> None:
        async with filled(SessionDB(":memory:")) as db:
            seen = []
            async for record in db.iter_export():
                seen.append(record["id"])
                await db.set_meta("last", record["id"])
            assert sorted(seen) == [f"s{number}" for number in range(COUNT)]
            assert await db.get_meta("last") == seen[-1]

    asyncio.run(main())


def test_more_exports_than_threads(tmp_path: Path) -> None:
    async def main() -> None:
        db = filled(SessionDB(tmp_path / "state.db"))
        async with AsyncSessionDB(db._db, threads=1) as narrow:
            exports = [narrow.iter_export() for _ in range(4)]
            for _ in range(COUNT):
                await asyncio.gather(*(anext(export) for export in exports))
            for export in exports:
                with pytest.raises(StopAsyncIteration):
                    await anext(export)

    asyncio.run(main())


class Source:
    """An iterator over a read of the store that knows whether it is still open."""

    def __init__(self, db: AsyncSessionDB) -> None:
        self._db = db
        self.is_open = False
        self.release = threading.Event()
        self.stepping = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def read(self) -> Iterator[int]:
        with self._db.provider.read() as tx:
            self.is_open = True
            try:
                for number in range(COUNT):
                    assert tx.one("SELECT COUNT(*) FROM sessions") is not None
                    yield number
                    self._loop.call_soon_threadsafe(self.stepping.set)
                    self.release.wait()
            finally:
                self.is_open = False


def test_leaving_early_gives_everything_back(open_store: OpenStore) -> None:
    async def main() -> None:
        async with filled(open_store()) as db:
            source = Source(db)
            async with aclosing(db._iterate(source.read)) as numbers:
                async for number in numbers:
                    assert (number, source.is_open) == (0, True)
                    break
            assert not source.is_open

    asyncio.run(main())


def test_a_cancelled_step_ends_the_export(open_store: OpenStore) -> None:
    async def main() -> None:
        async with filled(open_store()) as db:
            source = Source(db)
            numbers = db._iterate(source.read)
            assert await anext(numbers) == 0
            step: asyncio.Task[Any] = asyncio.create_task(_next(numbers))
            await source.stepping.wait()
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
            assert source.is_open  # The call did not wait for the step.
            source.release.set()
        assert not source.is_open  # But for its end, `close` did.

    asyncio.run(main())


async def _next(numbers: Any) -> Any:
    return await anext(numbers)


def test_closing_ends_what_is_open(open_store: OpenStore) -> None:
    async def main() -> None:
        db = filled(open_store())
        source = Source(db)
        source.release.set()
        numbers, export = db._iterate(source.read), db.iter_export()
        await anext(numbers)
        await anext(export)
        await db.close()
        assert not source.is_open
        for iterator in (numbers, export, db.iter_export()):
            with pytest.raises(StoreClosed):
                await anext(iterator)

    asyncio.run(main())


def test_closing_waits_for_a_step(open_store: OpenStore) -> None:
    async def main() -> None:
        db = filled(open_store())
        source = Source(db)
        numbers = db._iterate(source.read)
        await anext(numbers)
        step: asyncio.Task[Any] = asyncio.create_task(_next(numbers))
        await source.stepping.wait()
        closing = asyncio.create_task(db.close())
        await turns()
        assert not closing.done()
        source.release.set()
        await closing
        assert (await step, source.is_open) == (1, False)

    asyncio.run(main())


def test_an_export_that_is_forgotten_does_not_outlive_the_handle(open_store: OpenStore) -> None:
    async def main() -> tuple[AsyncSessionDB, Source]:
        db = filled(open_store())
        source = Source(db)
        source.release.set()
        async for _ in db._iterate(source.read):
            break
        return db, source

    db, source = asyncio.run(main())
    asyncio.run(db.close())
    assert not source.is_open
