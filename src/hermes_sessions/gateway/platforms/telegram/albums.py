"""Remember which albums in groups are for the bot, so that all their pictures are.

Telegram sends each picture of an album as its own message, and the caption that mentions the bot
with one of them. The others may arrive after that one was stored, even after a restart, so the
newest albums of each group are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from hermes_sessions.gateway.platforms.port import Services

#: Albums to remember per group, and groups to keep in memory.
_ALBUMS: Final = 50
_GROUPS: Final = 1_000


class AddressedAlbums:
    """Lives on the event loop."""

    def __init__(self, services: Services) -> None:
        self._services = services
        #: By group; the latest are last.
        self._known: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    async def has(self, chat_id: str, album: str) -> bool:
        """Tell whether an album is for the bot.

        Raises:
            StoreError: the store cannot tell at the moment.
        """
        return album in self._known.get(chat_id, ()) or album in await self._load(chat_id)

    async def add(self, chat_id: str, album: str) -> None:
        """Remember that an album is for the bot.

        Raises:
            StoreError: it could not be stored.
        """
        if album in self._known.get(chat_id, ()):
            return
        albums = OrderedDict(await self._load(chat_id))
        albums[album] = None
        while len(albums) > _ALBUMS:
            albums.popitem(last=False)
        await self._services.save_state(_name(chat_id), " ".join(albums))
        self._keep(chat_id, albums)

    async def _load(self, chat_id: str) -> OrderedDict[str, None]:
        # Another gateway may have stored the picture with the caption.
        stored = await self._services.load_state(_name(chat_id)) or ""
        return self._keep(chat_id, OrderedDict.fromkeys(stored.split()))

    def _keep(self, chat_id: str, albums: OrderedDict[str, None]) -> OrderedDict[str, None]:
        self._known[chat_id] = albums
        self._known.move_to_end(chat_id)
        if len(self._known) > _GROUPS:
            self._known.popitem(last=False)
        return albums


def _name(chat_id: str) -> str:
    return f"telegram:albums:{chat_id}"
