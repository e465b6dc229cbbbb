"""Somebody with a client that encrypts: matrix-nio, with keys in memory."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from nio import AsyncClient, AsyncClientConfig, MegolmEvent, RoomMessageNotice, RoomMessageText
from nio.store import SqliteMemoryStore

from tests.gateway.platforms.matrix.synapse import Account, Synapse

PATIENCE = 60.0
ENCRYPTED = {
    "type": "m.room.encryption",
    "state_key": "",
    "content": {"algorithm": "m.megolm.v1.aes-sha2"},
}


class EncryptedClient:
    """A person who reads and writes in encrypted rooms."""

    def __init__(self, synapse: Synapse, account: Account) -> None:
        self.account = account
        self._client = AsyncClient(
            synapse.url,
            account.user_id,
            config=AsyncClientConfig(store=SqliteMemoryStore, encryption_enabled=True),
        )
        #: What others wrote: sender and text, or None where it could not be decrypted.
        self.read: list[tuple[str, str | None]] = []
        self.notices: list[str] = []

    async def __aenter__(self) -> Self:
        account = self.account
        self._client.restore_login(account.user_id, account.device_id, account.token)
        await self.sync()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._client.close()
        self._client.store.database.close()

    async def make_room(self, *others: str, **options: Any) -> str:
        """Make an encrypted room and invite others."""
        made = await self._client.room_create(
            invite=others, initial_state=[ENCRYPTED], is_direct=len(others) == 1, **options
        )
        await self.sync()
        room_id: str = made.room_id
        return room_id

    async def wait_for_member(self, room_id: str, user_id: str) -> None:
        """Return when somebody has joined."""
        await self._until(
            lambda: (
                (member := self._client.rooms[room_id].users.get(user_id)) is not None
                and not member.invited
            )
        )

    async def say(self, room_id: str, text: str, **content: Any) -> str:
        """Say something, encrypted for everybody who is there."""
        await self.sync()
        body = {"msgtype": "m.text", "body": text} | content
        sent = await self._client.room_send(
            room_id, "m.room.message", body, ignore_unverified_devices=True
        )
        event_id: str = sent.event_id
        return event_id

    async def hear(self, count: int) -> list[tuple[str, str | None]]:
        """Return what others wrote, once that is so many messages."""
        await self._until(lambda: len(self.read) >= count)
        return self.read

    async def hear_notices(self, count: int) -> list[str]:
        """Return notices of others, once there are so many."""
        await self._until(lambda: len(self.notices) >= count)
        return self.notices

    async def _until(self, condition: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await self.sync(500)

    async def sync(self, milliseconds: int = 0) -> None:
        client = self._client
        answer = await client.sync(timeout=milliseconds, full_state=not client.next_batch)
        for room in answer.rooms.join.values():
            for event in room.timeline.events:
                if event.sender == self.account.user_id:
                    continue
                if isinstance(event, RoomMessageNotice):
                    self.notices.append(event.body)
                elif isinstance(event, RoomMessageText):
                    self.read.append((event.sender, event.body))
                elif isinstance(event, MegolmEvent):
                    self.read.append((event.sender, None))
        if client.should_upload_keys:
            await client.keys_upload()
        if client.should_query_keys:
            await client.keys_query()
        await client.send_to_device_messages()
