"""Names of users and channels, cached.

Names are optional: a message waits only briefly for them, and is delivered without them if Slack
does not respond or the app lacks the scope.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.payloads import short
from hermes_sessions.gateway.platforms.port import PlatformError
from hermes_sessions.gateway.platforms.slack.client import SlackClient
from hermes_sessions.gateway.platforms.slack.mapping import SlackMessage

logger = logging.getLogger(__name__)

#: How long a name is cached, and how long to wait before the next attempt after a failure.
_CACHE_SECONDS: Final = 3600.0
_FAILURE_CACHE_SECONDS: Final = 60.0
_MAX_CACHED: Final = 10_000

Record = Mapping[str, Any]


class _CacheEntry(NamedTuple):
    record: Record
    until: float


class Directory:
    """Names of one workspace. Does not raise."""

    def __init__(
        self,
        client: SlackClient,
        *,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*patience* is how many seconds a message waits for its names."""
        self._client = client
        self._clock = clock
        self._patience = patience
        self._known: OrderedDict[str, _CacheEntry] = OrderedDict()

    async def with_names(self, message: SlackMessage) -> Inbound:
        """Return the message with the names of its sender and its chat."""
        source = message.inbound.source
        is_private = source.chat_type == "dm"
        person, channel = await asyncio.gather(
            self._find(source.user_id or "", self._client.person),
            # A private chat has the name of the other user.
            _nothing() if is_private else self._find(source.chat_id, self._client.channel),
        )
        name = _name_of(person)
        is_group = not message.is_kind_known and channel.get("is_mpim") is True
        return replace(
            message.inbound,
            source=replace(
                source,
                user_name=name,
                chat_name=name if is_private else short(channel.get("name")),
                chat_topic=_topic_of(channel),
                chat_type="group" if is_group else source.chat_type,
            ),
        )

    async def _find(self, key: str, ask: Callable[[str], Awaitable[Record]]) -> Record:
        known = self._known.get(key)
        if known is not None and known.until > self._clock():
            return known.record
        found: Record = known.record if known else {}
        seconds = _FAILURE_CACHE_SECONDS
        try:
            async with asyncio.timeout(self._patience):
                found = await ask(key)
            seconds = _CACHE_SECONDS
        except (PlatformError, TimeoutError) as error:
            logger.info(
                "slack: the name of %s is not available for now: %s",
                key,
                str(error) or "no response in time",
            )
        self._known[key] = _CacheEntry(found, self._clock() + seconds)
        self._known.move_to_end(key)
        if len(self._known) > _MAX_CACHED:
            self._known.popitem(last=False)
        return found


async def _nothing() -> Record:
    return {}


def _name_of(person: Record) -> str | None:
    profile = person.get("profile")
    profile = profile if isinstance(profile, Mapping) else {}
    for name in (profile.get("display_name"), profile.get("real_name"), person.get("name")):
        if found := short(name):
            return found
    return None


def _topic_of(channel: Record) -> str | None:
    for name in ("purpose", "topic"):
        about = channel.get(name)
        if isinstance(about, Mapping) and (words := short(about.get("value"))):
            return words
    return None
