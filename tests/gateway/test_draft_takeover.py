"""A draft belongs to the process that has taken over its turn."""

from __future__ import annotations

import asyncio

import pytest

from hermes_sessions.gateway.events import Target
from hermes_sessions.gateway.reply_drafts import Draft, Streaming
from hermes_sessions_testing.clock import FrozenClock
from tests.gateway.fake_adapter import FakeAdapter

TARGET = Target("telegram", "1")


class Note:
    """Whose the message is, as the store says."""

    def __init__(self) -> None:
        self.message_id: str | None = None
        self.is_mine = True
        self.is_ended = False

    async def shown(self, message_id: str) -> bool:
        self.message_id = message_id
        return not self.is_ended

    async def is_ours(self, *, is_over: bool) -> bool:
        return self.is_mine


async def shown(room: FakeAdapter, text: str) -> None:
    async with asyncio.timeout(60):
        while not any(text in each for each in room.chats.get("1", ())):  # noqa: ASYNC110 - a room
            await asyncio.sleep(0)


@pytest.mark.parametrize("is_mine", [True, False])
def test_after_a_long_silence_it_is_looked_whose_it_is(is_mine: bool) -> None:
    async def run() -> list[str]:
        room, note, clock = FakeAdapter(), Note(), FrozenClock()
        streaming = Streaming(edit_interval=0.0, buffer_threshold=1, cursor="|")
        room.limits = room.limits.__class__(text=40, edits=True, edit_seconds=0.0)  # type: ignore[misc]
        draft = Draft(room, TARGET, streaming, key="k", note=note, clock=clock)
        draft.add("One")
        await shown(room, "One|")
        assert note.message_id == "1/0"
        draft.add(", two")
        await shown(room, "One, two|")
        note.is_mine = is_mine
        clock.advance(3600)
        draft.add(", three")
        if is_mine:
            await shown(room, "three|")
        else:
            await draft._task
        assert await draft.finish() == "1/0"
        await draft.leave(is_over=True)
        return room.chats["1"]

    assert asyncio.run(run()) == ["One, two, three" if is_mine else "One, two|"]


def test_a_draft_shown_after_the_end_of_the_turn_stays_with_its_process() -> None:
    async def run() -> list[str]:
        room, note = FakeAdapter(), Note()
        note.is_ended, note.is_mine = True, False
        room.limits = room.limits.__class__(text=40, edits=True, edit_seconds=0.0)  # type: ignore[misc]
        streaming = Streaming(edit_interval=0.0, buffer_threshold=1, cursor="|")
        draft = Draft(room, TARGET, streaming, key="k", note=note)
        draft.add("One")
        await shown(room, "One|")
        await draft.finish()
        await draft.leave(is_over=True)
        return room.chats["1"]

    assert asyncio.run(run()) == ["One"]


def test_it_continues_in_the_message_of_the_earlier_attempt() -> None:
    async def run() -> list[str]:
        room = FakeAdapter()
        left = await room.send(TARGET, "One, tw|", key="before")
        streaming = Streaming(edit_interval=0.0, buffer_threshold=1, cursor="|")
        draft = Draft(room, TARGET, streaming, key="k", note=Note(), message_id=left)
        draft.add("One, two")
        await shown(room, "One, two|")
        await draft.finish()
        return room.chats["1"]

    assert asyncio.run(run()) == ["One, two|"]
