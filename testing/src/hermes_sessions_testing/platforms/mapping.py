"""How messages of the platform become messages of the gateway."""

from __future__ import annotations

import pytest

from hermes_sessions.model.lane import build_session_key
from hermes_sessions.model.source import SessionSource
from hermes_sessions_testing.platforms.harness import (
    AdapterHarness,
    MessengerServer,
    Room,
    run_connected,
)


def _needs(messenger: MessengerServer, *rooms: Room) -> None:
    missing = [room for room in rooms if room not in messenger.rooms]
    if missing:
        pytest.skip(f"the messenger has no {', '.join(missing)}")


class TestMapping:
    """A message arrives unchanged, with the ids that distinguish conversations."""

    @pytest.mark.parametrize(
        "text",
        ["Hello", "two\nlines", "漢字 👩‍👩‍👧‍👦 🇩🇪 é", "<b>&amp;</b> *x* _y_ `z`", "/help me"],
    )
    def test_the_text_arrives_unchanged(self, messenger: MessengerServer, text: str) -> None:
        """Any script, symbol or markup."""

        async def steps(harness: AdapterHarness) -> None:
            assert (await harness.hear(text)).text == text

        run_connected(messenger, steps)

    @pytest.mark.parametrize("room", ["private", "group", "topic"])
    def test_the_source_is_complete(self, messenger: MessengerServer, room: Room) -> None:
        """Platform, chat, type, sender, thread and message id; a stored source reads back equal."""
        _needs(messenger, room)

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

        run_connected(messenger, steps)

    def test_people_are_told_apart(self, messenger: MessengerServer) -> None:
        """Users have different ids and session keys; the gateway decides who may talk."""

        async def steps(harness: AdapterHarness) -> None:
            anna = (await harness.hear(sender="anna")).source
            bert = (await harness.hear(sender="bert")).source
            assert anna.user_id != bert.user_id
            assert build_session_key(anna) != build_session_key(bert)

        run_connected(messenger, steps)

    def test_rooms_are_told_apart(self, messenger: MessengerServer) -> None:
        """Each room has its own session key, the same for all its messages."""

        async def steps(harness: AdapterHarness) -> None:
            keys = {}
            for room in messenger.rooms:
                first = build_session_key((await harness.hear(room=room)).source)
                assert build_session_key((await harness.hear(room=room)).source) == first
                keys[room] = first
            assert len(set(keys.values())) == len(messenger.rooms)

        run_connected(messenger, steps)

    def test_messages_have_ids_of_their_own(self, messenger: MessengerServer) -> None:
        """The gateway recognises duplicates by these ids."""

        async def steps(harness: AdapterHarness) -> None:
            first, second = await harness.hear("same"), await harness.hear("same")
            assert first.message_id != second.message_id

        run_connected(messenger, steps)

    def test_programs_are_not_listened_to(self, messenger: MessengerServer) -> None:
        """Messages of bots are ignored, or two bots would talk to each other for ever."""

        async def steps(harness: AdapterHarness) -> None:
            messenger.write("I am a robot", sender="robot")
            await harness.hear("I am not")
            assert await harness.services.texts(1) == ["I am not"]

        run_connected(messenger, steps)
