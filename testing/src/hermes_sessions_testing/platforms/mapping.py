"""Who wrote, where and what."""

from __future__ import annotations

import pytest

from hermes_sessions.model.lane import build_session_key
from hermes_sessions.model.source import SessionSource
from hermes_sessions_testing.platforms.harness import (
    AdapterHarness,
    PlatformWorld,
    Room,
    run_connected,
)


def _needs(world: PlatformWorld, *rooms: Room) -> None:
    missing = [room for room in rooms if room not in world.rooms]
    if missing:
        pytest.skip(f"the platform has no {', '.join(missing)}")


class TestMapping:
    """A message arrives as it was written, with everything that tells conversations apart."""

    @pytest.mark.parametrize(
        "text",
        ["Hello", "two\nlines", "漢字 👩‍👩‍👧‍👦 🇩🇪 é", "<b>&amp;</b> *x* _y_ `z`", "/help me"],
    )
    def test_the_text_arrives_unchanged(self, world: PlatformWorld, text: str) -> None:
        """Whatever script, sign or markup it contains."""

        async def steps(harness: AdapterHarness) -> None:
            assert (await harness.hear(text)).text == text

        run_connected(world, steps)

    @pytest.mark.parametrize("room", ["private", "group", "topic"])
    def test_the_source_is_complete(self, world: PlatformWorld, room: Room) -> None:
        """Platform, chat, type, sender, thread and message; it survives being stored."""
        _needs(world, room)

        async def steps(harness: AdapterHarness) -> None:
            inbound = await harness.hear(room=room)
            source = inbound.source
            assert source.platform.value == harness.adapter.name
            assert source.chat_id
            assert source.user_id
            assert (source.chat_type == "dm") is (room == "private")
            assert bool(source.thread_id) is (room == "topic")
            assert inbound.message_id
            assert SessionSource.from_dict(source.to_dict()) == source

        run_connected(world, steps)

    def test_people_are_told_apart(self, world: PlatformWorld) -> None:
        """Whether they may talk is decided by who they are, and not by the adapter."""

        async def steps(harness: AdapterHarness) -> None:
            anna = (await harness.hear(sender="anna")).source
            bert = (await harness.hear(sender="bert")).source
            assert anna.user_id != bert.user_id
            assert build_session_key(anna) != build_session_key(bert)

        run_connected(world, steps)

    def test_rooms_are_told_apart(self, world: PlatformWorld) -> None:
        """Every room is a conversation of its own, and the same room the same one."""

        async def steps(harness: AdapterHarness) -> None:
            keys = {}
            for room in world.rooms:
                first = build_session_key((await harness.hear(room=room)).source)
                assert build_session_key((await harness.hear(room=room)).source) == first
                keys[room] = first
            assert len(set(keys.values())) == len(world.rooms)

        run_connected(world, steps)

    def test_messages_have_ids_of_their_own(self, world: PlatformWorld) -> None:
        """By which a message that is delivered twice is recognised."""

        async def steps(harness: AdapterHarness) -> None:
            first, second = await harness.hear("same"), await harness.hear("same")
            assert first.message_id != second.message_id

        run_connected(world, steps)

    def test_programs_are_not_listened_to(self, world: PlatformWorld) -> None:
        """Two bots would talk for ever."""

        async def steps(harness: AdapterHarness) -> None:
            world.write("I am a robot", sender="robot")
            await harness.hear("I am not")
            assert await harness.services.texts(1) == ["I am not"]

        run_connected(world, steps)
