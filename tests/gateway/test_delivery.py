"""Delivery of replies: in order, in parts, with retries, and with a visible failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.gateway.delivery import (
    CLAIM_SECONDS,
    LONGEST_PAUSE,
    MAX_ATTEMPTS,
    Delivery,
    key_of,
    part_of,
    pause_after,
    reply_to,
    target_of,
    target_text,
)
from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.platforms.port import RateLimited, Undeliverable, Unreachable
from hermes_sessions.storage.repositories.outbox import Outbox, Outgoing
from hermes_sessions_testing.clock import FrozenClock
from tests.gateway.fake_adapter import FakeAdapter


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def outbox(tmp_path: Path, clock: FrozenClock) -> Iterator[Outbox]:
    with SessionDB(tmp_path / "state.db", clock=clock) as db:
        yield Outbox(db.store, "main")


@pytest.fixture
def room() -> FakeAdapter:
    return FakeAdapter()


def put(outbox: Outbox, text: str, chat: str = "1", draft_id: str | None = None) -> int:
    return outbox.put(reply_to(Target("telegram", chat), text, draft_id=draft_id))


def deliver(outbox: Outbox, room: FakeAdapter, process: str = "p") -> list[str]:
    outcomes: list[str] = []

    async def once() -> None:
        delivery = Delivery(
            outbox,
            {"telegram": room},
            lambda: process,
            on_outcome=lambda _, what: outcomes.append(what),
        )
        await delivery.settle()

    asyncio.run(once())
    return outcomes


def test_a_chat_gets_its_replies_in_order(outbox: Outbox, room: FakeAdapter) -> None:
    for number in range(5):
        put(outbox, str(number))
        put(outbox, f"b{number}", chat="2")
    deliver(outbox, room)
    assert room.chats == {"1": list("01234"), "2": ["b0", "b1", "b2", "b3", "b4"]}
    assert outbox.counts() == {"sent": 10}


def test_a_long_reply_is_sent_in_parts(outbox: Outbox, room: FakeAdapter) -> None:
    put(outbox, "word " * 20)
    deliver(outbox, room)
    assert " ".join(room.chats["1"]).split() == ["word"] * 20
    assert all(len(part) <= 40 for part in room.chats["1"])
    (sent,) = outbox.list(["sent"])
    assert len(sent.sent_ids) == len(room.chats["1"]) > 1
    assert room.keys == [f"{sent.id}.{number}" for number in range(len(sent.sent_ids))]


def test_parts_that_were_sent_are_not_sent_again(
    outbox: Outbox, room: FakeAdapter, clock: FrozenClock
) -> None:
    put(outbox, "word " * 20)

    def cut_the_line(_target: Target, _text: str) -> None:
        if len(room.chats.get("1", ())) == 1:
            raise Unreachable("cut")

    room.before_send = cut_the_line
    assert deliver(outbox, room) == ["postponed"]
    room.before_send = lambda _target, _text: None
    clock.advance(pause_after(0))
    assert deliver(outbox, room) == ["sent"]
    assert " ".join(room.chats["1"]).split() == ["word"] * 20


def test_the_draft_becomes_the_reply(outbox: Outbox, room: FakeAdapter) -> None:
    room.chats["1"] = ["I am thin"]
    put(outbox, "word " * 10, draft_id="1/0")
    deliver(outbox, room)
    assert " ".join(room.chats["1"]).split() == ["word"] * 10


def test_a_draft_that_is_gone_costs_nothing(outbox: Outbox, room: FakeAdapter) -> None:
    put(outbox, "hello", draft_id="1/7")
    assert deliver(outbox, room) == ["sent"]
    assert room.chats["1"] == ["hello"]


def test_too_many_requests_wait_as_long_as_asked(
    outbox: Outbox, room: FakeAdapter, clock: FrozenClock
) -> None:
    put(outbox, "hello")
    room.failures = [RateLimited("slow down", 7)]
    assert deliver(outbox, room) == ["postponed"]
    assert outbox.list(["waiting"])[0].next_at == clock() + 7
    clock.advance(7)
    assert deliver(outbox, room) == ["sent"]
    assert outbox.list(["sent"])[0].attempts == 0


def test_pauses_grow_and_then_it_is_given_up(
    outbox: Outbox, room: FakeAdapter, clock: FrozenClock
) -> None:
    put(outbox, "hello")
    put(outbox, "behind it")
    pauses = []
    for _ in range(MAX_ATTEMPTS):
        room.failures = [Unreachable("no route")]
        deliver(outbox, room)
        *_, hello = outbox.list(["waiting", "dead", "sent"])
        if hello.status == "waiting":
            pauses.append(hello.next_at - clock())
            clock.advance(pauses[-1])
    assert pauses[:4] == [1, 2, 4, 8]
    assert max(pauses) == LONGEST_PAUSE
    assert len(pauses) == MAX_ATTEMPTS - 1
    (dead,) = outbox.list(["dead"])
    assert (dead.text, dead.error) == ("hello", "no route")
    assert room.chats == {"1": ["behind it"]}


def test_what_the_platform_will_never_take_is_given_up_at_once(
    outbox: Outbox, room: FakeAdapter
) -> None:
    put(outbox, "hello")
    put(outbox, "other", chat="2")
    room.failures = [Undeliverable("blocked by the user")]
    assert sorted(deliver(outbox, room)) == ["dead", "sent"]
    assert outbox.list(["dead"])[0].error == "blocked by the user"


def test_a_fault_of_an_adapter_is_an_attempt(
    outbox: Outbox, room: FakeAdapter, caplog: pytest.LogCaptureFixture
) -> None:
    put(outbox, "hello")
    room.failures = [AttributeError("no such thing")]
    assert deliver(outbox, room) == ["postponed"]
    assert "failed to send: AttributeError in" in caplog.text
    assert "no such thing" not in caplog.text, "it may contain user text"
    (kept,) = outbox.list(["waiting"])
    assert (kept.attempts, kept.error) == (1, "AttributeError: no such thing")


def test_a_platform_that_is_not_connected_keeps_its_replies(
    outbox: Outbox, room: FakeAdapter
) -> None:
    put(outbox, "hello")
    room.connected = False
    assert deliver(outbox, room) == []
    room.connected = True
    assert deliver(outbox, room) == ["sent"]


def test_running_delivers_when_woken(outbox: Outbox, room: FakeAdapter) -> None:
    async def scenario() -> None:
        delivery = Delivery(outbox, {"telegram": room}, lambda: "p")
        running = asyncio.create_task(delivery.run())
        sent = asyncio.Event()
        room.before_send = lambda _target, _text: sent.set()
        await asyncio.to_thread(put, outbox, "hello")
        delivery.wake()
        await asyncio.wait_for(sent.wait(), 60)
        await delivery.settle()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
    assert outbox.counts() == {"sent": 1}


def test_what_is_being_sent_is_not_sent_again_when_the_clock_jumps(
    outbox: Outbox, room: FakeAdapter, clock: FrozenClock
) -> None:
    put(outbox, "hello")

    async def scenario() -> None:
        goes_on = asyncio.Event()
        send = room.send

        async def slowly(target: Target, text: str, *, key: str) -> str:
            sent = await send(target, text, key=key)
            await goes_on.wait()
            return sent

        room.send = slowly  # type: ignore[method-assign]
        delivery = Delivery(outbox, {"telegram": room}, lambda: "p")
        assert await delivery.deliver_due() == 1
        # A laptop slept, or the platform takes very long.
        clock.advance(10 * CLAIM_SECONDS)
        put(outbox, "elsewhere", chat="2")
        assert await delivery.deliver_due() == 1
        goes_on.set()
        await delivery.settle()

    asyncio.run(scenario())
    assert room.chats == {"1": ["hello"], "2": ["elsewhere"]}
    assert outbox.counts() == {"sent": 2}


def test_what_was_claimed_in_this_moment_is_waited_for(
    outbox: Outbox, room: FakeAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway stops while it takes the last reply out of the outbox."""
    put(outbox, "hello")
    works, is_claimed, claim_ends = outbox.claim, threading.Event(), threading.Event()

    def claim(*given: Any, **options: Any) -> list[Outgoing]:
        if claimed := works(*given, **options):
            is_claimed.set()
            assert claim_ends.wait(60)
        return claimed

    monkeypatch.setattr(outbox, "claim", claim)

    async def scenario() -> None:
        delivery, send, looks = Delivery(outbox, {"telegram": room}, lambda: "p"), room.send, []
        sends_on, both_looked, deliver_due = asyncio.Event(), asyncio.Event(), delivery.deliver_due

        async def slowly(target: Target, text: str, *, key: str) -> str:
            await sends_on.wait()
            return await send(target, text, key=key)

        async def look() -> int:
            looks.append(await deliver_due())
            if len(looks) == 2:
                both_looked.set()
            return looks[-1]

        monkeypatch.setattr(room, "send", slowly)
        monkeypatch.setattr(delivery, "deliver_due", look)
        claiming = asyncio.create_task(look())
        await asyncio.to_thread(is_claimed.wait)
        settling = asyncio.create_task(delivery.settle())
        await asyncio.sleep(0)
        claim_ends.set()
        await both_looked.wait()
        await asyncio.sleep(0)
        assert claiming.done()
        assert not settling.done()
        sends_on.set()
        await settling

    asyncio.run(scenario())
    assert room.chats == {"1": ["hello"]}
    assert outbox.counts() == {"sent": 1}


def test_targets_come_back_unchanged() -> None:
    target = Target("telegram", "ü:1", "7", "99", {"a": [1, None]})
    assert target_of(target_text(target)) == target


def test_a_reply_without_a_target_is_given_up_and_blocks_no_other(
    outbox: Outbox, room: FakeAdapter
) -> None:
    there = reply_to(Target("telegram", "1"), "Lost")
    outbox.put(there._replace(target='{"chat": "1"}'))
    put(outbox, "Found")
    assert deliver(outbox, room) == ["dead", "sent"]
    assert room.chats == {"1": ["Found"]}


def test_an_unexpected_failure_is_an_attempt(
    outbox: Outbox, room: FakeAdapter, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(outbox, "Hello")
    with monkeypatch.context() as patch:
        patch.setattr("hermes_sessions.gateway.delivery.split", lambda *_given: 1 / 0)
        assert deliver(outbox, room) == ["postponed"]
    (waiting,) = outbox.list(["waiting"])
    assert (waiting.attempts, "ZeroDivisionError" in (waiting.error or "")) == (1, True)
    clock.advance(pause_after(0))
    assert deliver(outbox, room) == ["sent"]


def test_keys_name_a_reply_and_a_part() -> None:
    assert part_of(key_of(17, 2)) == (17, 2)
    for key in ("", ".", "17", "17.", ".2", "draft.17", "receipt.m1.0", "-1.0", "1.0.0", "١.٢"):
        assert part_of(key) is None
    assert part_of("9" * 30 + ".0") is None
