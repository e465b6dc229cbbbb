"""Threads that the bot is in: what is said there is said to it, also without its name.

They are remembered through restarts, the newest of each channel.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from hermes_sessions.errors import StoreError
from hermes_sessions.gateway.platforms.port import Services

logger = logging.getLogger(__name__)

#: Threads of one channel that are remembered, and channels that are kept at hand.
_THREADS: Final = 200
_CHANNELS: Final = 1_000


class Threads:
    """The threads of one bot. Lives on the event loop."""

    def __init__(self, services: Services, team_id: str) -> None:
        self._services = services
        self._team_id = team_id
        #: By channel; the latest are last.
        self._followed: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    async def is_followed(self, channel: str, thread_ts: str) -> bool:
        """Tell whether the bot is in a thread.

        Raises:
            StoreError: that cannot be found out now.
        """
        if thread_ts in self._followed.get(channel, ()):
            return True
        try:
            threads = await self._load(channel)
        except StoreError:
            if channel in self._followed:
                return False
            raise
        return thread_ts in threads

    async def follow(self, channel: str, thread_ts: str) -> None:
        """Remember that the bot is in a thread. If it cannot be stored, this process knows it, and
        stores it with the next one.
        """
        known = self._followed.get(channel, OrderedDict())
        if thread_ts in known:
            known.move_to_end(thread_ts)
            return
        try:
            threads = await self._load(channel)
            self._add(threads, thread_ts)
            await self._services.save_state(self._name(channel), " ".join(threads))
        except StoreError as error:
            logger.warning("slack: a thread is remembered here alone for now: %s", error)
            self._add(self._followed.setdefault(channel, known), thread_ts)

    async def _load(self, channel: str) -> OrderedDict[str, None]:
        """Return what is stored, with what this process knows: others may have stored, too."""
        stored = await self._services.load_state(self._name(channel)) or ""
        threads = OrderedDict.fromkeys(stored.split())
        for thread_ts in self._followed.get(channel, ()):
            self._add(threads, thread_ts)
        self._followed[channel] = threads
        self._followed.move_to_end(channel)
        if len(self._followed) > _CHANNELS:
            self._followed.popitem(last=False)
        return threads

    def _add(self, threads: OrderedDict[str, None], thread_ts: str) -> None:
        threads[thread_ts] = None
        threads.move_to_end(thread_ts)
        while len(threads) > _THREADS:
            threads.popitem(last=False)

    def _name(self, channel: str) -> str:
        return f"slack:threads:{self._team_id}:{channel}"
