"""Threads that the bot follows: messages there are for it even without a mention.

The newest threads of each channel are remembered across restarts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from hermes_sessions.errors import StoreError
from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.payloads import short
from hermes_sessions.gateway.platforms.port import PlatformError, Services
from hermes_sessions.gateway.platforms.slack.client import SlackClient
from hermes_sessions.gateway.platforms.slack.mapping import plain

# Earlier messages of a thread, which the agent cannot see otherwise.

#: Limits: the latest messages, and the start of each.
_MAX_MESSAGES: Final = 20


_MAX_MESSAGE_CHARS: Final = 1000


_MAX_TOTAL_CHARS: Final = 6000


Record = Mapping[str, Any]


async def with_thread_history(
    client: SlackClient, inbound: Inbound, *, user_id: str, patience: float
) -> Inbound:
    """Return a message with the earlier messages of its thread, if Slack responds within *patience*
    seconds; *user_id* is the bot's.
    """
    source, ts = inbound.source, inbound.message_id or ""
    try:
        async with asyncio.timeout(patience):
            said = await client.replies(source.chat_id, source.thread_id or "", ts)
    except (PlatformError, TimeoutError) as error:
        logger.info(
            "slack: the earlier messages of a thread are not available: %s",
            str(error) or "no response in time",
        )
        return inbound
    words = quoted(said, before=ts, user_id=user_id)
    return replace(inbound, text=f"{words}\n\n{inbound.text}") if words else inbound


def quoted(messages: Iterable[object], *, before: str, user_id: str) -> str:
    """Return messages of a thread as a quote, the latest that fit. Pure."""
    lines: list[str] = []
    room = _MAX_TOTAL_CHARS
    earlier = [each for each in messages if isinstance(each, Mapping) and _ts(each) < before]
    for message in reversed(earlier[-_MAX_MESSAGES:]):
        line = _quotation(message, user_id)
        room -= len(line)
        if room < 0:
            break
        lines += [line] if line else []
    return "\n".join(("[Earlier in this thread]", *reversed(lines))) if lines else ""


def _quotation(message: Record, user_id: str) -> str:
    text = message.get("text")
    if not isinstance(text, str) or not text.strip():
        return ""
    words = plain(text[:_MAX_MESSAGE_CHARS]) + ("…" if len(text) > _MAX_MESSAGE_CHARS else "")
    return "\n".join(f"> {line}" for line in f"{_author(message, user_id)}: {words}".splitlines())


def _author(message: Record, user_id: str) -> str:
    user = short(message.get("user"))
    if user == user_id:
        return "You"
    if user is not None:
        return f"<@{user}>"
    return short(message.get("username")) or "an app"


def _ts(message: Record) -> str:
    ts = message.get("ts")
    # Slack's timestamps keep the same number of digits for another 250 years.
    return ts if isinstance(ts, str) else "~"


logger = logging.getLogger(__name__)

#: Threads to remember per channel, and channels to cache.
_MAX_THREADS: Final = 200
_MAX_CHANNELS: Final = 1_000


class FollowedThreads:
    """The threads of one bot. Runs on the event loop."""

    def __init__(self, services: Services, team_id: str) -> None:
        self._services = services
        self._team_id = team_id
        #: By channel; the latest are last.
        self._followed: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    async def is_followed(self, channel: str, thread_ts: str) -> bool:
        """Return whether the bot follows a thread.

        Raises:
            StoreError: the store is unavailable.
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
        """Follow a thread. If it cannot be stored, this process remembers it, and stores it with
        the next one.
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
            logger.warning("slack: a followed thread could not be stored yet: %s", error)
            self._add(self._followed.setdefault(channel, known), thread_ts)

    async def _load(self, channel: str) -> OrderedDict[str, None]:
        """Return the stored threads and those of this process: other processes store some, too."""
        stored = await self._services.load_state(self._name(channel)) or ""
        threads = OrderedDict.fromkeys(stored.split())
        for thread_ts in self._followed.get(channel, ()):
            self._add(threads, thread_ts)
        self._followed[channel] = threads
        self._followed.move_to_end(channel)
        if len(self._followed) > _MAX_CHANNELS:
            self._followed.popitem(last=False)
        return threads

    def _add(self, threads: OrderedDict[str, None], thread_ts: str) -> None:
        threads[thread_ts] = None
        threads.move_to_end(thread_ts)
        while len(threads) > _MAX_THREADS:
            threads.popitem(last=False)

    def _name(self, channel: str) -> str:
        return f"slack:threads:{self._team_id}:{channel}"
