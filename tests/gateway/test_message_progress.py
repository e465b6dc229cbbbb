"""Clients that watch a message get all of its progress, whenever they start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hermes_sessions.gateway import message_progress
from hermes_sessions.gateway.message_progress import ProgressHub
from hermes_sessions.gateway.platforms.port import Progress

END = Progress("ended", "Hello there", outcome="completed")


def perform(run: Callable[[ProgressHub], Awaitable[None]]) -> None:
    async def main() -> None:
        await run(ProgressHub(asyncio.get_running_loop()))

    asyncio.run(main())


def said(hub: ProgressHub, item_id: int, *pieces: str) -> None:
    for piece in pieces:
        hub.publish([item_id], Progress("text", piece))


async def seen(hub: ProgressHub, item_id: int) -> list[Progress]:
    return [each async for each in hub.watch(item_id)]


async def begin_to_watch(hub: ProgressHub, item_id: int) -> asyncio.Task[list[Progress]]:
    task = asyncio.create_task(seen(hub, item_id))
    await asyncio.sleep(0)
    assert item_id in hub.watched()
    return task


def test_a_late_watcher_gets_all_progress_once() -> None:
    async def run(hub: ProgressHub) -> None:
        early = await begin_to_watch(hub, 1)
        hub.publish([1], Progress("reasoning", "Hm"))
        said(hub, 1, "Hel", "lo")
        hub.publish([1], Progress("tool_started", "search"))
        late = await begin_to_watch(hub, 1)
        said(hub, 1, " there")
        hub.publish([1], END)
        assert [each.text for each in await early] == [
            "Hm",
            "Hel",
            "lo",
            "search",
            " there",
            END.text,
        ]
        assert [each.text for each in await late] == ["Hm", "Hello", "search", " there", END.text]
        assert await seen(hub, 1) == [END], "after the end that is enough"

    perform(run)


def test_nothing_is_kept_of_what_ended() -> None:
    async def run(hub: ProgressHub) -> None:
        for item_id in range(50):
            said(hub, item_id, "x" * 1000, "y" * 5000, "z")
            hub.publish([item_id], Progress("ended", "", outcome="dropped"))
        assert (len(hub._running), hub._running_characters) == (0, 0)

    perform(run)


def test_turns_without_an_end_are_forgotten_eventually(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(hub: ProgressHub) -> None:
        monkeypatch.setattr(message_progress, "_RUNNING", 3)
        for item_id in range(9):
            said(hub, item_id, "lost")
        assert list(hub._running) == [6, 7, 8]
        monkeypatch.setattr(message_progress, "_RUNNING_TEXT", 100)
        said(hub, 9, "x" * 99)
        assert list(hub._running) == [9]
        said(hub, 9, "x" * 99)
        assert (list(hub._running), hub._running_characters) == ([9], 198), "it continues"

    perform(run)
