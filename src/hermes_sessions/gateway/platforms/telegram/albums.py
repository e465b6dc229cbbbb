"""Albums in groups that are for the bot: every picture of one is, whenever it comes.

Telegram sends each picture of an album as a message of its own, and the caption that names the bot
with one of them. The others may come after that one was taken, also after a restart, so the newest
albums of each group are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from hermes_sessions.gateway.platforms.port import Services

#: Albums of one group that are remembered, and groups that are kept at hand.
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
            StoreError: that cannot be found out now.
        """
        return album in self._known.get(chat_id, ()) or album in await self._load(chat_id)

    async def add(self, chat_id: str, album: str) -> None:
        """Remember that an album is for the bot.

        Raises:
            StoreError: that could not be stored.
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
        # Another gateway may have taken the picture with the caption.
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
