"""Waiting for a reply, up to the time limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from hermes_sessions.gateway.events import Receipt
from hermes_sessions.gateway.platforms.api.errors import ApiError
from hermes_sessions.gateway.platforms.api.formatting import ReplyDeltas
from hermes_sessions.gateway.platforms.api.reply_stream import (
    follow,
    require_answer,
    require_stored,
)
from hermes_sessions.gateway.platforms.port import Progress


class Watched:
    """Progress that comes when a test says so."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Progress | None] = asyncio.Queue()
        self.is_closed = False

    async def __call__(self) -> AsyncIterator[Progress]:
        try:
            while (progress := await self.queue.get()) is not None:
                yield progress
        finally:
            self.is_closed = True


def run(scene: Callable[[Watched, asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        watched = Watched()
        await scene(watched, asyncio.Event())
        assert watched.is_closed

    asyncio.run(main())


def test_it_ends_with_the_turn() -> None:
    async def scene(watched: Watched, ending: asyncio.Event) -> None:
        happened = [Progress("text", "Hi"), Progress("ended", "Hi", outcome="completed")]
        for progress in [*happened, Progress("text", "too late")]:
            watched.queue.put_nowait(progress)
        assert [each async for each in follow(watched(), ending, seconds=60)] == happened

    run(scene)


def test_silence_is_noticed() -> None:
    async def scene(watched: Watched, ending: asyncio.Event) -> None:
        following = follow(watched(), ending, seconds=60, quiet_seconds=0.0)
        assert await anext(following) is None
        watched.queue.put_nowait(Progress("ended", outcome="completed"))
        while await anext(following) is None:
            pass
        assert [each async for each in following] == []

    run(scene)


@pytest.mark.parametrize("why", ["restarting", "takes_long", "out_of_sight"])
def test_a_message_that_is_no_longer_followed(why: str) -> None:
    """It was taken all the same, and clients are told not to send it again."""

    async def scene(watched: Watched, ending: asyncio.Event) -> None:
        if why == "restarting":
            ending.set()
        if why == "out_of_sight":
            watched.queue.put_nowait(None)
        with pytest.raises(ApiError) as problem:
            async for _ in follow(watched(), ending, seconds=0 if why == "takes_long" else 60):
                pass
        assert problem.value.code == why
        assert problem.value.headers["X-Should-Retry"] == "false"

    run(scene)


def test_a_client_that_leaves_lets_go() -> None:
    async def scene(watched: Watched, ending: asyncio.Event) -> None:
        watched.queue.put_nowait(Progress("text", "Hi"))
        following = follow(watched(), ending, seconds=60)
        await anext(following)
        await following.aclose()  # type: ignore[attr-defined]

    run(scene)


@pytest.mark.parametrize(
    ("receipt", "status", "retries"),
    [
        (Receipt("refused"), 403, None),
        (Receipt("refused", reply="Ask my owner.", reason="unknown"), 403, None),
        (Receipt("refused", reply="Too many.", reason="too many"), 429, None),
        (Receipt("refused", reply="Too many wait.", reason="full"), 429, None),
        (Receipt("refused", reply="Too large.", reason="too large"), 413, None),
        (Receipt("refused", reply="Something went wrong.", reason="failed"), 500, None),
        (Receipt("spooled"), 503, "false"),
        (Receipt("duplicate"), 409, "false"),
    ],
)
def test_what_was_not_taken(receipt: Receipt, status: int, retries: str | None) -> None:
    with pytest.raises(ApiError) as problem:
        require_stored(receipt)
    assert problem.value.status == status
    assert problem.value.headers.get("X-Should-Retry") == retries


def test_what_was_taken() -> None:
    for receipt in (Receipt("stored", 1), Receipt("duplicate", 1), Receipt("answered")):
        require_stored(receipt)
    require_answer(Progress("ended", outcome="completed"))


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        ([("text", "He"), ("text", "llo"), ("ended", "Hello")], "Hello"),
        ([("ended", "Hello")], "Hello"),
        ([("text", "Hel"), ("ended", "Hello")], "Hello"),
        (
            [("text", "Look."), ("tool_started", "x"), ("text", "Hi"), ("ended", "Hi")],
            "Look.\n\nHi",
        ),
        ([("tool_started", "x"), ("text", "Hi"), ("ended", "Hi")], "Hi"),
        ([("text", "Look."), ("tool_started", "x"), ("ended", "Hi")], "Look.\n\nHi"),
        ([("text", "something else"), ("ended", "Hello")], "something else"),
        ([("reasoning", "Hm."), ("text", "Hi"), ("ended", "")], "Hi"),
    ],
)
def test_all_of_a_reply_is_shown_once(progress: list[tuple[Any, str]], shown: str) -> None:
    spoken = ReplyDeltas()
    assert "".join(spoken.piece(Progress(kind, text)) for kind, text in progress) == shown
