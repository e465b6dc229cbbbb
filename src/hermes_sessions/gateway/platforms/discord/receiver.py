"""Pass messages from Discord to the gateway, one after the other, those of a gap first.

Events wait in memory; messages that were missed are fetched from the history of each channel. Both
are stored in order, and the read position is saved after that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from hermes_sessions.errors import HermesSessionsError, InvalidInput
from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.discord.client import PAGE, RestClient
from hermes_sessions.gateway.platforms.discord.directory import (
    CHANNEL_EVENTS,
    ChannelInfo,
    Directory,
)
from hermes_sessions.gateway.platforms.discord.identifiers import is_snowflake
from hermes_sessions.gateway.platforms.discord.mapping import (
    InboundReader,
    LocatedMessage,
    locate,
    roles_of,
)
from hermes_sessions.gateway.platforms.discord.read_positions import ReadPositions
from hermes_sessions.gateway.platforms.port import (
    LoginRefused,
    PlatformError,
    RateLimited,
    Services,
    Undeliverable,
    UnreadablePayload,
)
from hermes_sessions.gateway.platforms.receive_loop import (
    Sleep,
    Stopped,
    StopSignal,
    pause_after,
)
from hermes_sessions.storage.logs import where

logger = logging.getLogger(__name__)

#: When more wait to be stored, the rest is left to the history.
_MOST_WAITING: Final = 10_000
#: Messages of a history that are recognised when Discord also tells them.
_REMEMBERED: Final = 2000

T = TypeVar("T")


class _Gap(NamedTuple):
    """Channels in which something may have been missed: of a server, or private ones."""

    guild_id: str | None
    #: Whether nothing is known of what was said there last.
    is_unknown: bool = False
    #: Private chats that may not be remembered yet.
    rooms: tuple[str, ...] = ()


class Receiver:
    """Receives events, and stores their messages. Runs on the event loop."""

    def __init__(
        self,
        services: Services,
        client: RestClient,
        reader: InboundReader,
        marks: ReadPositions,
        *,
        needs_roles: bool,
        catches_up: bool,
        sleep: Sleep,
        people: Sequence[str] = (),
        most_waiting: int = _MOST_WAITING,
    ) -> None:
        """Private chats of *people* are read after a gap even if they never wrote before."""
        self._services = services
        self._client = client
        self._reader = reader
        self._marks = marks
        self._needs_roles = needs_roles
        self._catches_up = catches_up
        self._sleep = sleep
        self._people = people
        #: By the ids of people: the channels in which they write in private.
        self._private: dict[str, str] = {}
        self._most_waiting = most_waiting
        self._directory = Directory(reader.bot_id)
        self._ending = StopSignal()
        self._waiting: deque[_Gap | object] = deque()
        self._has_waiting = asyncio.Event()
        #: The private chats among the channels of which messages were left to the history.
        self._dropped: set[str] | None = None
        #: By the ids of messages that came from a history.
        self._fetched: dict[str, None] = {}
        #: How many payloads were unreadable since the start.
        self.unreadable = 0

    # ── what Discord tells ────────────────────────────────────────────────────────────────────

    def is_on_a_server(self, channel_id: str) -> bool | None:
        """Tell whether a channel belongs to a server; None if Discord has not sent all servers."""
        is_complete = not self._directory.expected
        channel = self._directory.channels.get(channel_id)
        if channel is None:
            return False if is_complete else None
        return channel.guild_id is not None

    def handlers(self) -> Mapping[str, Callable[[Any], None]]:
        """Return the handlers of events, by name."""
        channels = {name: self._learning(name) for name in CHANNEL_EVENTS}
        return {
            **channels,
            "READY": self._start_session,
            "GUILD_CREATE": self._meet_guild,
            "MESSAGE_CREATE": self._hear,
        }

    def _learning(self, name: str) -> Callable[[Any], None]:
        return lambda data: self._directory.take(name, data)

    def _start_session(self, data: Any) -> None:
        self._directory.expect(data.get("guilds") if isinstance(data, Mapping) else None)
        # Between two sessions Discord keeps nothing; what servers there are is told next.
        if self._catches_up:
            self._put(_Gap(None))

    def _meet_guild(self, data: Any) -> None:
        self._directory.take("GUILD_CREATE", data)
        guild_id = data.get("id")
        if self._catches_up and is_snowflake(guild_id) and not data.get("unavailable"):
            self._put(_Gap(guild_id))

    def _hear(self, data: Any) -> None:
        is_full = self._catches_up and len(self._waiting) >= self._most_waiting
        # After the first that is left out all are, so that none is overtaken.
        if not is_full and self._dropped is None:
            self._put(data)
            return
        try:
            message = locate(data)
        except UnreadablePayload as problem:
            self.skip(str(problem))
            return
        self._dropped = self._dropped or set()
        if message.guild_id is None:
            self._dropped.add(message.channel_id)

    def _put(self, what: _Gap | object) -> None:
        self._waiting.append(what)
        self._has_waiting.set()

    def skip(self, why: str) -> None:
        """Count and log an unreadable payload."""
        self.unreadable += 1
        logger.warning("discord: a message is skipped: %s", why)

    # ── storing ───────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Store messages until `end` is called, then those that have already arrived."""
        try:
            while True:
                if not self._waiting:
                    await self._ending.result_unless_stopped(self._has_waiting.wait())
                await self._work_on(self._waiting.popleft())
                self._settle()
        except Stopped:
            await self._marks.remember(self._unlisted())
            await self._marks.flush()

    async def _work_on(self, what: _Gap | object) -> None:
        try:
            await (self._catch_up(what) if isinstance(what, _Gap) else self._take_told(what))
        except Stopped:
            self._waiting.appendleft(what)
            raise
        except Exception:
            # An unexpected error must not stop the messages behind it.
            self.unreadable += 1
            logger.exception("discord: an event could not be handled")

    def end(self) -> None:
        """Stop; what cannot be stored now is read from the history at the next start."""
        self._ending.ask()

    def _unlisted(self) -> dict[str, str]:
        """Return the channels in which something waits that Discord may not list the next time: by
        their ids the servers of threads, empty for private chats.
        """
        rooms = dict.fromkeys(self._dropped or (), "")
        for what in self._waiting:
            if isinstance(what, _Gap):
                rooms |= dict.fromkeys(what.rooms, "")
                continue
            with suppress(UnreadablePayload):
                message = locate(what)
                channel = self._directory.channels.get(message.channel_id)
                if message.guild_id is None or (channel is not None and channel.is_thread):
                    rooms[message.channel_id] = message.guild_id or ""
        return rooms

    def _settle(self) -> None:
        if self._waiting:
            return
        self._has_waiting.clear()
        if self._dropped is not None:
            rooms, self._dropped = tuple(self._dropped), None
            self._put(_Gap(None, is_unknown=True, rooms=rooms))
            for guild_id in self._directory.guilds:
                self._put(_Gap(guild_id, is_unknown=True))

    async def _take_told(self, data: object) -> None:
        if isinstance(data, Mapping) and data.get("id") in self._fetched:
            return
        await self._take(data, None)

    async def _take(self, data: object, channel: ChannelInfo | None) -> None:
        """Store a message if it is for the bot, and remember that the channel was read so far.

        Raises:
            Stopped: the adapter is disconnecting, and it is not stored.
        """
        try:
            message = locate(data)
        except UnreadablePayload as problem:
            self.skip(str(problem))
            return
        inbound = None
        try:
            channel = channel or await self._channel_of(message)
            inbound = self._read(message, channel)
            if inbound is not None and await self._offer(await self._with_roles(inbound, message)):
                room_of = (
                    (channel.guild_id or "") if channel.is_thread or not channel.guild_id else None
                )
                await self._marks.stored(message.channel_id, message.message_id, room_of)
                return
        except UnreadablePayload as problem:
            self.skip(str(problem))
        await self._marks.passed(message.channel_id, message.message_id)

    def _read(self, message: LocatedMessage, channel: ChannelInfo) -> Inbound | None:
        try:
            return self._reader.read(message, channel, self._directory)
        except UnreadablePayload:
            raise
        except Exception as error:
            # A retry would fail in the same way, and the rest of a history would wait for it.
            raise UnreadablePayload(f"reading it failed: {where(error)}") from error

    async def _channel_of(self, message: LocatedMessage) -> ChannelInfo:
        channel = self._directory.channels.get(message.channel_id)
        if channel is not None or message.guild_id is None:
            return channel or ChannelInfo(message.channel_id)
        found = await self._find(message.channel_id, message.guild_id)
        return found or ChannelInfo(message.channel_id, guild_id=message.guild_id)

    async def _find(self, channel_id: str, guild_id: str) -> ChannelInfo | None:
        """Return a channel that Discord did not announce, None if the bot cannot see it."""
        try:
            channel = await self._insist(lambda: self._client.channel(channel_id))
        except (Undeliverable, LoginRefused):
            return None
        return self._directory.add(channel, guild_id)

    async def _with_roles(self, inbound: Inbound, message: LocatedMessage) -> Inbound:
        """Return a message with the roles of its sender, which a history does not contain."""
        guild_id, user_id = inbound.source.guild_id, inbound.source.user_id
        if not self._needs_roles or not guild_id or not user_id or message.data.get("member"):
            return inbound
        try:
            member = await self._insist(lambda: self._client.member(guild_id, user_id))
        except (Undeliverable, LoginRefused):
            return inbound
        return replace(inbound, roles=roles_of(member, ChannelInfo("", guild_id=guild_id)))

    async def _offer(self, inbound: Inbound) -> bool:
        """Pass a message to the gateway until it is stored; return whether it was."""
        failures = 0
        while True:
            try:
                await self._services.accept(inbound)
            except InvalidInput as error:
                self.skip(str(error))
                return False
            except HermesSessionsError as error:
                logger.warning("discord: a message cannot be stored yet: %s", error)
            except Exception:
                # Whatever the error: a message that is not stored is not skipped.
                logger.exception("discord: a message could not be stored")
            else:
                return True
            failures += 1
            await self._ending.result_unless_stopped(self._sleep(pause_after(failures)))

    # ── catching up ───────────────────────────────────────────────────────────────────────────

    async def _catch_up(self, gap: _Gap) -> None:
        """Store the messages in the histories after the read positions.

        Raises:
            Stopped: the adapter is disconnecting; the rest is read at the next start.
        """
        for channel in await self._channels_in(gap):
            await self._read_on(channel, is_unknown=gap.is_unknown)

    async def _channels_in(self, gap: _Gap) -> list[ChannelInfo]:
        rooms = self._marks.rooms_of(gap.guild_id)
        if gap.guild_id is None:
            private = await self._private_chats()
            return [ChannelInfo(room) for room in dict.fromkeys((*rooms, *gap.rooms, *private))]
        listed = [each for each in self._directory.channels_of(gap.guild_id) if each.holds_messages]
        known = {channel.id for channel in listed}
        # Threads sleep after a while, and are not listed then.
        asleep = [await self._find(room, gap.guild_id) for room in rooms if room not in known]
        return [*listed, *(channel for channel in asleep if channel is not None)]

    async def _private_chats(self) -> list[str]:
        """Return where those would write in private of whom that can be known: Discord does not
        list private channels to bots, but names that of a person whom the bot names.
        """
        for user_id in self._people:
            if user_id in self._private:
                continue
            try:
                asked = self._client.private_channel(user_id)
                self._private[user_id] = await self._ending.result_unless_stopped(asked)
            except PlatformError as error:
                # Receiving does not wait for it: the messages are found after the next gap.
                logger.info("discord: no private chat with %s is known: %s", user_id, error)
        return list(self._private.values())

    async def _read_on(self, channel: ChannelInfo, *, is_unknown: bool) -> None:
        # What private chats ended with is never known.
        last = None if is_unknown or channel.guild_id is None else channel.last_message_id
        if last is not None and last <= self._marks.horizon:
            return
        guild = self._directory.guild_of(channel)
        after = max(await self._after(channel), guild.joined if guild else 0)
        if last is not None and last <= after:
            return
        while True:
            try:
                page = await self._insist(partial(self._client.history, channel.id, after))
            except (Undeliverable, LoginRefused) as error:
                logger.info("discord: channel %s has no history: %s", channel.id, error)
                if isinstance(error, Undeliverable):
                    await self._marks.forget(channel.id)
                return
            found = sorted(
                (
                    each
                    for each in page
                    if isinstance(each, Mapping) and is_snowflake(each.get("id"))
                ),
                key=lambda each: int(each["id"]),
            )
            for each in found:
                await self._take({**each, "channel_id": channel.id}, channel)
                self._remember(each["id"])
            if len(page) < PAGE or not found or int(found[-1]["id"]) <= after:
                return
            after = int(found[-1]["id"])

    async def _after(self, channel: ChannelInfo) -> int:
        failures = 0
        while True:
            try:
                return await self._marks.after(channel.id)
            except HermesSessionsError as error:
                failures += 1
                logger.warning("discord: the read positions are not available yet: %s", error)
                await self._ending.result_unless_stopped(self._sleep(pause_after(failures)))

    def _remember(self, message_id: str) -> None:
        self._fetched[message_id] = None
        if len(self._fetched) > _REMEMBERED:
            del self._fetched[next(iter(self._fetched))]

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return a response of Discord, retrying while it is unavailable.

        Raises:
            Undeliverable, LoginRefused: Discord refuses the request.
            Stopped: the adapter is disconnecting.
        """
        failures = 0
        while True:
            try:
                return await self._ending.result_unless_stopped(ask())
            except (Undeliverable, LoginRefused):
                raise
            except RateLimited as error:
                pause = error.retry_after
            except PlatformError as error:
                failures += 1
                pause = pause_after(failures)
                logger.warning("discord: %s; retrying in %g s", error, pause)
            await self._ending.result_unless_stopped(self._sleep(pause))
