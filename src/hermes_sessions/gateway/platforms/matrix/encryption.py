"""Keys of encrypted rooms: shared with all members before a message is sent.

Trust: a room's key is shared with every device of its members, as the homeserver lists them; a
device that changes its own keys is no longer trusted. See docs/matrix.md.
"""

from __future__ import annotations

import asyncio
from typing import Any

from nio import AsyncClient, Event, MegolmEvent
from nio.exceptions import EncryptionError

from hermes_sessions.gateway.platforms.matrix.device_folder import Undecrypted
from hermes_sessions.gateway.platforms.matrix.errors import checked, translated
from hermes_sessions.gateway.platforms.port import PlatformError, Unreachable
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)


class RoomEncryption:
    """The keys of one device."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._sharing = asyncio.Lock()

    async def sync_keys(self) -> None:
        """Do the library's work after each response: upload keys, query those of others, answer
        requests. Failures are retried the next time.
        """
        client = self._client
        if client.olm is None:
            return
        try:
            with translated():
                if client.should_upload_keys:
                    checked(await client.keys_upload())
                if client.should_query_keys:
                    checked(await client.keys_query())
                if client.should_claim_keys:
                    checked(await client.keys_claim(client.get_users_for_key_claiming()))
                for answer in await client.send_to_device_messages():
                    checked(answer)
        except PlatformError as error:
            logger.info("matrix: keys could not be exchanged yet: %s", error)

    async def prepare(self, room_id: str) -> None:
        """Share the key of an encrypted room with all members. No-op if the room is not encrypted.

        The library continues when that fails and sends a message that cannot be decrypted, so each
        step is done here.

        Raises:
            Unreachable, RateLimited: not every member has the key; retry later.
        """
        client = self._client
        room = client.rooms.get(room_id)
        if client.olm is None or room is None or not room.encrypted:
            return
        async with self._sharing:
            with translated():
                if not room.members_synced:
                    checked(await client.joined_members(room_id))
                if client.should_query_keys:
                    checked(await client.keys_query())
                if not client.olm.should_share_group_session(room_id):
                    return
                if missing := client.get_missing_sessions(room_id):
                    checked(await client.keys_claim(missing))
                await self._share(room_id)

    async def _share(self, room_id: str) -> None:
        client = self._client
        try:
            answer = await client.share_group_session(room_id, ignore_unverified_devices=True)
            checked(answer)
            left_out = self._devices_without_key(room_id)
        except BaseException:
            # The library would wait forever for a share that failed.
            if waiting := client.sharing_session.pop(room_id, None):
                waiting.set()
            client.olm.outbound_group_sessions.pop(room_id, None)
            raise
        if left_out:
            client.olm.outbound_group_sessions.pop(room_id, None)
            raise Unreachable(f"The key of {room_id} did not reach {', '.join(left_out)}.")

    def _devices_without_key(self, room_id: str) -> list[str]:
        """Return the devices that could have got the key and did not."""
        client = self._client
        session = client.olm.outbound_group_sessions[room_id]
        left_out = []
        for user_id in client.rooms[room_id].users:
            for device in client.device_store.active_user_devices(user_id):
                who = (user_id, device.id)
                if who in session.users_shared_with or who in session.users_ignored:
                    continue
                if client.olm.session_store.get(device.curve25519) is None:
                    logger.warning("matrix: %s on device %s has no one-time keys left", *who)
                    continue
                left_out.append(f"{user_id} ({device.id})")
        return left_out

    def decrypt(self, undecrypted: Undecrypted) -> dict[str, Any] | None:
        """Return a decrypted event, None if its key is still missing."""
        if self._client.olm is None:
            return None
        event = Event.parse_event(dict(undecrypted.event))
        if not isinstance(event, MegolmEvent):
            return None
        event.room_id = room_id = undecrypted.room_id
        keys = self._client.olm.inbound_group_store
        if keys.get(room_id, event.sender_key, event.session_id) is None:
            return None
        try:
            found = self._client.decrypt_event(event)
        except EncryptionError:
            return None
        source: dict[str, Any] = found.source
        return source
