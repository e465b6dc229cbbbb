"""Answers of other gateways are sent soon, and an idle database is not polled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import GatewayConfig, SessionStore
from hermes_sessions.errors import StoreUnavailable
from hermes_sessions.gateway import delivery as delivering
from hermes_sessions.gateway.delivery import Delivery, reply_to
from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.message_progress import PendingReplies
from hermes_sessions.lifecycle.gateway_process import GatewayProcess
from hermes_sessions.lifecycle.mailboxes import Mailboxes
from hermes_sessions.model.source import Platform, SessionSource
from hermes_sessions.storage.provider import WriteTransaction
from hermes_sessions.storage.repositories.outbox import NewReply, Outbox
from hermes_sessions_testing.clock import FrozenClock
from tests.gateway.fake_adapter import FakeAdapter
from tests.gateway.harness import TelegramHarness
from tests.lifecycle.harness import LifecycleHarness
from tests.servers.stores import OpenStore

ANNAS = SessionSource(Platform.TELEGRAM, "7", chat_type="dm", user_id="7", user_name="Anna")


@pytest.fixture
def lifecycle(open_store: OpenStore, tmp_path: Path) -> Iterator[LifecycleHarness]:
    clock = FrozenClock()
    with open_store(clock=clock) as db:
        yield LifecycleHarness(db, clock, tmp_path)


def say(lifecycle: LifecycleHarness, text: str) -> int:
    item_id = lifecycle.say(text).item_id
    assert item_id is not None
    return item_id


def answer(lifecycle: LifecycleHarness, outbox: Outbox) -> None:
    """As another process does it: the end and the reply in one transaction."""
    taken = lifecycle.begin()
    assert taken is not None
    reply = reply_to(Target("telegram", "1"), "An answer", turn_id=taken.turn.id)
    lifecycle.mail.finish(taken.turn, "completed", also=lambda tx: put_in(tx, outbox, reply))


def put_in(tx: WriteTransaction, outbox: Outbox, reply: NewReply) -> None:
    outbox.put_in(tx, reply)


def test_an_end_is_noticed_once(lifecycle: LifecycleHarness) -> None:
    outbox = Outbox(lifecycle.db.store, lifecycle.engine.namespace)
    pending_replies = PendingReplies(lifecycle.db.store)
    pending_replies.add(say(lifecycle, "Hello"))
    assert not pending_replies.has_ended()
    answer(lifecycle, outbox)
    assert pending_replies.has_ended()
    assert not pending_replies.has_ended()


def test_what_runs_or_ended_here_is_not_looked_for(
    lifecycle: LifecycleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: set[int] = set()
    pending_replies = PendingReplies(lifecycle.db.store, lambda: here)
    item_id, ended_here = say(lifecycle, "Hello"), say(lifecycle, "And?")
    for each in (item_id, ended_here):
        pending_replies.add(each)
    here.add(item_id)
    pending_replies.ended([ended_here])
    monkeypatch.setattr(PendingReplies, "_unfinished", _asked)
    assert not pending_replies.has_ended()
    here.clear()
    with pytest.raises(AssertionError, match="was asked"):
        pending_replies.has_ended()


def _asked(*_: object) -> set[int]:
    raise AssertionError("the store was asked")


def test_many_are_asked_for_in_parts(lifecycle: LifecycleHarness) -> None:
    pending_replies = PendingReplies(lifecycle.db.store)
    item_id = say(lifecycle, "Hello")
    for each in range(item_id, item_id + 1_200):
        pending_replies.add(each)
    # Those that are not known have ended, too.
    assert pending_replies.has_ended()
    assert not pending_replies.has_ended()


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - a room has no events
            await asyncio.sleep(0.01)


def test_a_reply_that_another_gateway_wrote_is_sent_without_being_woken(
    lifecycle: LifecycleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "LOOK_EVERY", 3600.0)
    outbox = Outbox(lifecycle.db.store, lifecycle.engine.namespace)
    pending_replies = PendingReplies(lifecycle.db.store)
    failures = [StoreUnavailable("The database is away.")]
    looked: list[bool] = []

    def look() -> bool:
        looked.append(True)
        if failures:
            raise failures.pop()
        return pending_replies.has_ended()

    async def scenario() -> None:
        room = FakeAdapter()
        delivery = Delivery(outbox, {"telegram": room}, lambda: "p", has_ended_elsewhere=look)
        running = asyncio.create_task(delivery.run())
        await until(lambda: looked)
        pending_replies.add(await asyncio.to_thread(say, lifecycle, "Hello"))
        await asyncio.to_thread(answer, lifecycle, outbox)
        await until(lambda: room.chats.get("1") == ["An answer"])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_gateway_sends_what_another_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "LOOK_EVERY", 3600.0)
    with TelegramHarness(tmp_path) as harness:
        running = harness.start()
        assert running.gateway is not None
        # It takes messages, and runs none.
        running.gateway.pool.begin_drain()
        harness.telegram.write("Hello")
        with (
            harness.open_db() as db,
            SessionStore(
                tmp_path / "sessions", GatewayConfig(write_sessions_json=False), db=db
            ) as store,
        ):
            mailboxes = Mailboxes(store.engine)
            harness.telegram.wait_for(lambda: not harness.telegram.waiting)
            (waiting,) = mailboxes.waiting_lanes()
            other = GatewayProcess(store.engine)
            other.start()
            entry = store.get_or_create_session(ANNAS)
            lease = db.take_lease(entry.session_id, other.holder())
            taken = mailboxes.take(waiting.lane_id, lease)
            assert taken is not None
            reply = reply_to(Target("telegram", "7"), "From elsewhere")
            outbox = Outbox(db.store, "default")
            mailboxes.finish(taken.turn, "completed", also=lambda tx: put_in(tx, outbox, reply))
            assert harness.wait_for_replies(1) == ["From elsewhere"]
