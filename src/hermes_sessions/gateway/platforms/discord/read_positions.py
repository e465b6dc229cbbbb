"""The read position of each channel, kept in the store, so that a gap can be filled from history.

Discord has no confirmations, and does not deliver a message twice. So the last stored message of
each channel is remembered; later ones are fetched from the history.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.gateway.platforms.discord.identifiers import (
    is_snowflake,
    snowflake_at,
)
from hermes_sessions.gateway.platforms.port import Services

logger = logging.getLogger(__name__)

#: Private chats and threads to remember: Discord does not list all of them.
_MOST_ROOMS: Final = 500
#: How many channels may have unsaved positions, if nothing in them was for the bot.
_MOST_UNSAVED: Final = 50
#: A clock may be ahead of Discord's.
_SKEW_SECONDS: Final = 60.0


class ReadPositions:
    """The positions of one bot. Runs on the event loop."""

    def __init__(
        self, services: Services, bot_id: str, *, hours: int, clock: Callable[[], float]
    ) -> None:
        """*hours* is how far back histories are read."""
        self._services = services
        self._prefix = f"discord:{bot_id}"
        self._hours = hours
        self._clock = clock
        self._since = 0
        self._read: dict[str, int] = {}
        self._unsaved: set[str] = set()
        #: By channel: the server, empty for private chats; the longest silent first.
        self._rooms: dict[str, str] = {}

    async def load(self) -> None:
        """Load the saved positions; at the very first start, earlier messages are ignored.

        Raises:
            StoreError: the store cannot be used.
        """
        since = await self._services.load_state(f"{self._prefix}:since")
        if not is_snowflake(since):
            since = str(snowflake_at(self._clock() - _SKEW_SECONDS))
            await self._services.save_state(f"{self._prefix}:since", since)
        self._since = int(since)
        self._rooms = _rooms(await self._services.load_state(f"{self._prefix}:rooms") or "{}")

    def rooms_of(self, guild_id: str | None) -> list[str]:
        """Return the threads of a server, or the private chats, in which something was stored."""
        return [room for room, guild in self._rooms.items() if guild == (guild_id or "")]

    @property
    def horizon(self) -> int:
        """The id before which messages are ignored."""
        return max(self._since, snowflake_at(self._clock() - self._hours * 3600))

    async def after(self, channel_id: str) -> int:
        """Return the read position of a channel.

        Raises:
            StoreError: the store cannot be used.
        """
        await self._recall(channel_id)
        return max(self._read[channel_id], self.horizon)

    async def stored(self, channel_id: str, message_id: str, room_of: str | None = None) -> None:
        """Remember that a message was stored.

        *room_of* is given for channels that Discord may not list: see `remember`.
        """
        await self._pass(channel_id, message_id)
        await self._save([channel_id])
        if room_of is not None:
            await self.remember({channel_id: room_of})

    async def remember(self, rooms: Mapping[str, str]) -> None:
        """Remember channels that Discord may not list, so that their histories are read: by their
        ids the server of a thread, empty for a private chat.
        """
        is_known = rooms.keys() <= self._rooms.keys()
        for room in rooms:
            self._rooms.pop(room, None)
        self._rooms |= rooms
        if not is_known:
            while len(self._rooms) > _MOST_ROOMS:
                del self._rooms[next(iter(self._rooms))]
            await self._save_rooms()

    async def passed(self, channel_id: str, message_id: str) -> None:
        """Remember that a message was not for the bot. It is stored later: reading the message
        again does no harm.
        """
        await self._pass(channel_id, message_id)
        if len(self._unsaved) > _MOST_UNSAVED:
            await self.flush()

    async def forget(self, channel_id: str) -> None:
        """Forget a channel that no longer exists."""
        if channel_id in self._rooms:
            del self._rooms[channel_id]
            await self._save_rooms()

    async def flush(self) -> None:
        """Store unsaved positions."""
        await self._save(list(self._unsaved))

    async def _recall(self, channel_id: str) -> None:
        if channel_id not in self._read:
            saved = await self._services.load_state(self._name(channel_id))
            self._read[channel_id] = int(saved) if is_snowflake(saved) else 0

    async def _pass(self, channel_id: str, message_id: str) -> None:
        # A message that is delivered again is older than the position.
        with suppress(HermesSessionsError):
            await self._recall(channel_id)
        self._read[channel_id] = max(self._read.get(channel_id, 0), int(message_id))
        self._unsaved.add(channel_id)

    async def _save(self, channel_ids: list[str]) -> None:
        for channel_id in channel_ids:
            read = str(self._read[channel_id])
            if await self._save_state(self._name(channel_id), read):
                self._unsaved.discard(channel_id)

    async def _save_rooms(self) -> None:
        await self._save_state(f"{self._prefix}:rooms", json.dumps(self._rooms))

    async def _save_state(self, name: str, value: str) -> bool:
        try:
            await self._services.save_state(name, value)
        except HermesSessionsError as error:
            # The message itself is stored; at worst it is read again, and recognised.
            logger.warning("discord: the read position could not be stored: %s", error)
            return False
        return True

    def _name(self, channel_id: str) -> str:
        return f"{self._prefix}:read:{channel_id}"


def _rooms(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    known = found.items() if isinstance(found, dict) else ()
    return {room: guild for room, guild in known if is_snowflake(room) and isinstance(guild, str)}
