"""A gateway keeps nothing of a message that is answered, nor of a lane in which nothing happens.

What is counted are objects of ours and of the messenger's library, not bytes: those depend on
allocators, caches of the database and what else the machine does.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_sessions.gateway import message_progress
from hermes_sessions.gateway.platforms.port import Progress
from tests.gateway.harness import PATIENCE, RunningGateway, TelegramHarness

#: Objects that a message might leave behind, by the package that they are from.
_OURS = ("hermes_sessions.", "telegram.", "asyncio.", "_asyncio.", "concurrent.futures.")
_NOT_OURS = "hermes_sessions_testing."
PEOPLE = 8
ROUNDS = 5


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TelegramHarness]:
    # What is remembered on purpose is little enough to be full before anything is counted.
    monkeypatch.setattr(message_progress, "_REMEMBERED", 4)
    with TelegramHarness(tmp_path) as harness:
        harness.config["platforms"]["telegram"]["allowed_users"] = ["*"]
        harness.config["gateway"] = {"agent_cache_size": 4}
        yield harness


def counted() -> Counter[str]:
    gc.collect()
    names = (f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
    return Counter(
        name for name in names if name.startswith(_OURS) and not name.startswith(_NOT_OURS)
    )


def talk(harness: TelegramHarness, running: RunningGateway, rounds: range) -> None:
    """Let people write who wrote before, and as many who never did."""
    for number in rounds:
        known, new = (
            range(1000, 1000 + PEOPLE),
            range(2000 + number * PEOPLE, 2000 + (number + 1) * PEOPLE),
        )
        for user in [*known, *new]:
            person = {"id": user, "is_bot": False, "first_name": f"U{user}"}
            harness.telegram.write(f"Hello {number}", user=person)
        for user in known:
            harness.wait_for_replies(number + 1, user)
        for user in new:
            harness.wait_for_replies(1, user)
    assert running.gateway is not None
    assert running.gateway.pool.wait_idle(PATIENCE)


def test_what_was_answered_is_not_kept(harness: TelegramHarness) -> None:
    running = harness.start()
    talk(harness, running, range(ROUNDS))
    before = counted()
    talk(harness, running, range(ROUNDS, 3 * ROUNDS))
    # Pools and caches may have become fuller; one object for each lane or message is more.
    few = ROUNDS * PEOPLE
    until = time.monotonic() + PATIENCE
    while grown := {
        name: (before[name], count)
        for name, count in counted().items()
        if count - before[name] > few
    }:
        assert time.monotonic() < until, grown
        time.sleep(0.1)


def test_of_long_answers_fewer_are_remembered() -> None:
    async def watched() -> list[str]:
        hub = message_progress.ProgressHub(asyncio.get_running_loop())
        for number in range(5):
            hub.publish((number,), Progress("ended", f"{number}" * 900_000, outcome="completed"))
        last = await anext(hub.watch(4))
        first = asyncio.ensure_future(anext(hub.watch(0)))
        await asyncio.sleep(0)
        hub.publish((0,), Progress("ended", "from the store", outcome="completed"))
        return [last.text[:1], (await first).text]

    assert asyncio.run(watched()) == ["4", "from the store"]
