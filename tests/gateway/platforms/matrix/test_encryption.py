"""Encrypted rooms: what is said there is read, answered and kept, across restarts."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hermes_sessions.gateway.platforms.port import LoginRefused, RateLimited, Unreachable
from hermes_sessions_testing.platforms import RecordingServices
from hermes_sessions_testing.platforms.harness import answer_to
from tests.gateway.platforms.matrix.encrypted_client import EncryptedClient
from tests.gateway.platforms.matrix.synapse_platform import SynapsePlatform, too_many

Scene = Callable[[EncryptedClient, str], Awaitable[None]]


def with_friend(messenger: SynapsePlatform, scene: Scene, *others: str) -> None:
    """Run *scene* with somebody of their own, and an encrypted room to which the bot is invited."""

    async def main() -> None:
        account = messenger.synapse.register("carla")
        async with EncryptedClient(messenger.synapse, account) as friend:
            room_id = await friend.make_room(messenger.bot.user_id, *others)
            await scene(friend, room_id)

    asyncio.run(main())


class Connected:
    """An adapter at work, for the time of a block."""

    def __init__(self, messenger: SynapsePlatform, **changes: Any) -> None:
        self.adapter = messenger.make_adapter(**changes)
        self.services = RecordingServices()

    async def __aenter__(self) -> Connected:
        await self.adapter.connect(self.services)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.adapter.disconnect()


def test_a_conversation_that_only_the_two_can_read(messenger: SynapsePlatform) -> None:
    async def scene(friend: EncryptedClient, room_id: str) -> None:
        async with Connected(messenger) as bot:
            await friend.wait_for_member(room_id, messenger.bot.user_id)
            await friend.say(room_id, "A secret")
            assert await bot.services.texts(1) == ["A secret"]
            heard = bot.services.accepted[0]
            assert (heard.source.chat_id, heard.source.chat_type) == (room_id, "dm")
            sent = await bot.adapter.send(answer_to(heard), "I keep it", key="1")
            assert await friend.hear(1) == [(messenger.bot.user_id, "I keep it")]
            await bot.adapter.edit(answer_to(heard), sent, "I keep it well")
            assert (await friend.hear(2))[1] == (messenger.bot.user_id, "* I keep it well")
        kinds = await asyncio.to_thread(_kinds, messenger, friend, room_id)
        assert kinds == ["m.room.encrypted"] * 3

    with_friend(messenger, scene)


def _kinds(messenger: SynapsePlatform, friend: EncryptedClient, room_id: str) -> list[str]:
    found = messenger.synapse.ask(
        "GET",
        f"/_matrix/client/v3/rooms/{room_id}/messages?dir=f&limit=100",
        token=friend.account.token,
    )
    return [each["type"] for each in found["chunk"] if "state_key" not in each]


def test_the_device_is_kept(messenger: SynapsePlatform) -> None:
    """After a restart, what was written meanwhile is decrypted, and the other side sees the same
    device; the keys are for the owner alone.
    """

    async def scene(friend: EncryptedClient, room_id: str) -> None:
        login = {"token": None, "user": messenger.bot.user_id, "password": messenger.bot.password}
        async with Connected(messenger, **login) as bot:
            await friend.wait_for_member(room_id, messenger.bot.user_id)
            await friend.say(room_id, "one")
            await bot.services.texts(1)
        before = (messenger.folder / "device.json").read_text()
        await friend.say(room_id, "two")
        async with Connected(messenger, **login) as bot:
            assert await bot.services.texts(1) == ["two"]
            await bot.adapter.send(answer_to(bot.services.accepted[0]), "still me", key="1")
            assert await friend.hear(1) == [(messenger.bot.user_id, "still me")]
        assert (messenger.folder / "device.json").read_text() == before
        for path in messenger.folder.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert stat.S_IMODE(messenger.folder.stat().st_mode) == 0o700

    with_friend(messenger, scene)


def test_what_cannot_be_decrypted_is_read_when_its_key_comes(messenger: SynapsePlatform) -> None:
    """It is said, and survives a restart."""
    held: list[Any] = []
    is_held = True

    def hold(answer: dict[str, Any]) -> None:
        events = answer.get("to_device", {}).get("events", [])
        if is_held:
            held.extend(events)
            answer.pop("to_device", None)
        elif held:
            answer["to_device"] = {"events": [*held, *events]}
            held.clear()

    async def scene(friend: EncryptedClient, room_id: str) -> None:
        nonlocal is_held
        async with Connected(messenger) as bot:
            await friend.wait_for_member(room_id, messenger.bot.user_id)
            messenger.proxy.change_sync = hold
            await friend.say(room_id, "Read me later")
            (notice,) = await friend.hear_notices(1)
            assert "cannot decrypt" in notice
            await asyncio.to_thread(messenger.wait_until, lambda: bot.adapter.undecrypted == 1)
            await friend.say(room_id, "Me too")
            await asyncio.to_thread(messenger.wait_until, lambda: bot.adapter.undecrypted == 2)
            assert bot.services.accepted == []
        assert (messenger.folder / "undecrypted.json").exists()
        async with Connected(messenger) as bot:
            is_held = False
            await friend.say(room_id, "Now")
            assert await bot.services.texts(3) == ["Read me later", "Me too", "Now"]
            await asyncio.to_thread(messenger.wait_until, lambda: bot.adapter.undecrypted == 0)
        assert not (messenger.folder / "undecrypted.json").exists()
        assert len(await friend.hear_notices(1)) == 1

    with_friend(messenger, scene)


@pytest.mark.parametrize(
    ("request_", "answer", "error"),
    [
        ("POST .*/keys/claim", too_many(3), RateLimited),
        ("PUT .*/sendToDevice/m.room.encrypted", (500, {}), Unreachable),
        ("POST .*/keys/claim", None, Unreachable),
    ],
    ids=["limited", "failed", "lost"],
)
def test_nothing_is_said_before_everybody_has_the_key(
    messenger: SynapsePlatform,
    request_: str,
    answer: tuple[int, Any] | None,
    error: type[Exception],
) -> None:
    async def scene(friend: EncryptedClient, room_id: str) -> None:
        async with Connected(messenger) as bot:
            await friend.wait_for_member(room_id, messenger.bot.user_id)
            # Not encrypted: so that the bot has no session with them yet.
            await asyncio.to_thread(
                messenger.synapse.ask,
                "PUT",
                f"/_matrix/client/v3/rooms/{room_id}/send/m.room.message/1",
                {"msgtype": "m.text", "body": "Hello"},
                token=friend.account.token,
            )
            await bot.services.texts(1)
            target = answer_to(bot.services.accepted[0])
            messenger.proxy.fail(request_, answer)
            with pytest.raises(error):
                await bot.adapter.send(target, "Hi", key="1")
            await bot.adapter.send(target, "Hi", key="1")
            assert await friend.hear(1) == [(messenger.bot.user_id, "Hi")]

    with_friend(messenger, scene)


def test_a_token_of_another_program_is_refused(messenger: SynapsePlatform) -> None:
    """Its keys are elsewhere: what the gateway said with new ones could not be read."""

    async def main() -> None:
        async with EncryptedClient(messenger.synapse, messenger.bot):
            adapter = messenger.make_adapter()
            with pytest.raises(LoginRefused, match="belongs to another program"):
                await adapter.connect(RecordingServices())

    asyncio.run(main())


def test_keys_that_are_damaged_are_said(messenger: SynapsePlatform) -> None:
    async def main() -> None:
        async with Connected(messenger):
            pass
        (keys,) = messenger.folder.glob("*.db")
        keys.write_bytes(b"not a database" * 1000)
        adapter = messenger.make_adapter()
        with pytest.raises(LoginRefused, match="cannot be read from"):
            await adapter.connect(RecordingServices())
        await adapter.disconnect()

    asyncio.run(main())
