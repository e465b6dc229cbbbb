"""The conformance kit through `AsyncSessionDB`: every verb does what its twin does.

Without the parts about text, scope and the port, which lie below both.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import AsyncSessionDB, SessionDB
from hermes_sessions_testing.conformance import (  # noqa: F401 - pytest collects what is here
    TestAnchors,
    TestArchive,
    TestAtomicity,
    TestClosing,
    TestCompressionLocks,
    TestConversation,
    TestDeletion,
    TestExport,
    TestIdempotency,
    TestIds,
    TestImport,
    TestLifecycle,
    TestLineage,
    TestListing,
    TestMaintenance,
    TestMessages,
    TestMeta,
    TestPruning,
    TestReadOnly,
    TestReplacement,
    TestRewind,
    TestSearch,
    TestSearchAnswers,
    TestSearchFilters,
    TestSearchOperators,
    TestSearchPages,
    TestSearchUpkeep,
    TestSecondHandle,
    TestThreads,
    TestTitles,
    TestTrash,
    TestUsage,
    clock,
    db,
    open_another,
)


class Awaited:
    """A handle as the kit calls it: every verb is awaited on an event loop in another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, options: dict[str, Any]) -> None:
        self._loop = loop
        self._twin: AsyncSessionDB = self._result(AsyncSessionDB.open(**options))

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._twin, name)
        if inspect.iscoroutinefunction(verb):
            return lambda *args, **kwargs: self._result(verb(*args, **kwargs))
        if inspect.ismethod(verb):
            return lambda *args, **kwargs: self._items(verb(*args, **kwargs))
        return verb

    def _items(self, items: AsyncGenerator[Any, None]) -> Iterator[Any]:
        try:
            while step := self._result(_step(items)):
                yield step[0]
        finally:
            self._result(items.aclose())

    def _result(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def __enter__(self) -> Awaited:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


async def _step(items: AsyncGenerator[Any, None]) -> list[Any]:
    async for item in items:
        return [item]
    return []


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        yield loop
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@pytest.fixture
def open_store(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> Callable[..., Any]:
    path = tmp_path / "state.db"
    SessionDB(path, durability="normal").close()

    def open_handle(**options: Any) -> Any:
        return Awaited(loop, {"db_path": path, "durability": "normal"} | options)

    return open_handle
