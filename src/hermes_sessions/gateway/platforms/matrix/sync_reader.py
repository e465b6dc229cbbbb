"""Turn sync responses into messages: fill gaps, wait for keys, quote replied messages.

Events that cannot be decrypted are logged, kept and retried when keys arrive; they are not dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeGuard

from hermes_sessions.gateway.events import Inbound
from hermes_sessions.gateway.platforms.matrix.client import MatrixClient, RoomTimeline, SyncResult
from hermes_sessions.gateway.platforms.matrix.device_folder import Undecrypted
from hermes_sessions.gateway.platforms.matrix.formatting import notice_content
from hermes_sessions.gateway.platforms.matrix.identifiers import is_event_id
from hermes_sessions.gateway.platforms.matrix.mapping import InboundReader, RoomDetails, with_edits
from hermes_sessions.gateway.platforms.port import (
    PlatformError,
    Undeliverable,
    UnreadablePayload,
)

# Which events of a room are new: none before the bot's invitation, and no gaps.


RoomEvent = Mapping[str, Any] | Undecrypted


async def all_new_events(
    client: MatrixClient,
    news: RoomTimeline,
    since: str,
    user_id: str,
    wait: Callable[[Awaitable[Any]], Awaitable[Any]],
) -> list[RoomEvent]:
    """Return the events of a room after *since* that are for the bot to read.

    A response has only the latest events of a room; earlier ones are requested page by page. *wait*
    wraps every request.

    Raises:
        RateLimited, Unreachable, Undeliverable
    """
    before: list[RoomEvent] = []
    start = news.gap_before
    seen: set[str] = set()
    # A server that returns the same position again would be asked forever.
    while (
        start is not None and start not in seen and not _has_joined(user_id, news.events + before)
    ):
        seen.add(start)
        page, start = await wait(client.events_before(news.room_id, start, since))
        before += page
    return since_invited(user_id, [*reversed(before), *news.events])


def since_invited(user_id: str, events: Sequence[RoomEvent]) -> list[RoomEvent]:
    """Return the events after the bot's invitation, if it joined the room among them.

    Messages right after the invitation are for the bot; earlier ones were for others.
    """
    begin = 0
    invited: int | None = None
    for index, event in enumerate(events):
        membership, before = _membership(user_id, event)
        if membership == "invite":
            invited = index
        elif membership == "join" and before != "join":
            begin = index if invited is None else invited
            invited = None
    return list(events[begin:])


def _has_joined(user_id: str, events: Sequence[RoomEvent]) -> bool:
    """Return whether the bot joined the room among *events*, and its invitation is there."""
    memberships = [_membership(user_id, event) for event in events]
    has_come = any(now == "join" and before != "join" for now, before in memberships)
    return has_come and any(now == "invite" for now, _ in memberships)


def _membership(user_id: str, event: RoomEvent) -> tuple[object, object]:
    """Return a member's membership after an event, and before it."""
    if isinstance(event, Undecrypted) or event.get("type") != "m.room.member":
        return None, None
    content = event.get("content")
    if event.get("state_key") != user_id or not isinstance(content, Mapping):
        return None, None
    unsigned = event.get("unsigned")
    previous = unsigned.get("prev_content") if isinstance(unsigned, Mapping) else None
    before = previous.get("membership") if isinstance(previous, Mapping) else None
    return content.get("membership"), before


logger = logging.getLogger(__name__)

#: The oldest events are given up when more wait for their keys.
_MAX_UNDECRYPTED: Final = 1000
_UNDECRYPTED_NOTICE: Final = (
    "I cannot decrypt this message: its key has not reached me. I will answer when it does. If "
    "it does not, please write again."
)

Wait = Callable[[Awaitable[Any]], Awaitable[Any]]


class SyncReader:
    """Reads the sync responses of one session."""

    def __init__(
        self, client: MatrixClient, reader: InboundReader, undecrypted: Iterable[Undecrypted]
    ) -> None:
        """*undecrypted* are the events that an earlier process could not decrypt."""
        self._client = client
        self._reader = reader
        #: Undecrypted events up to the confirmed response; and including the latest one.
        self.undecrypted = list(undecrypted)
        self.remaining = list(self.undecrypted)
        self._is_first = True
        self._told = {each.session_id for each in self.undecrypted}
        #: How many events were unreadable.
        self.unreadable = 0

    async def read(self, news: SyncResult, since: str | None, wait: Wait) -> list[Inbound]:
        """Return the messages for the gateway, in order. May be called again with the same
        response.

        *since* is the position before the response; without it everything is history, and ignored.
        *wait* wraps every operation that takes time.

        Raises:
            RateLimited, Unreachable: the homeserver cannot deliver everything now.
        """
        found = self._retry_decryption() if news.has_keys or self._is_first else []
        still = [each for each in self.undecrypted if not any(each is one for one, _ in found)]
        messages = [
            message
            for each, event in found
            for message in await self._messages(each.room_id, [event], wait)
        ]
        for room in news.rooms if since is not None else ():
            try:
                events = await all_new_events(
                    self._client, room, since or "", self._reader.user_id, wait
                )
            except Undeliverable as error:
                # For example, the bot has left the room.
                logger.warning("matrix: a gap in %s cannot be filled: %s", room.room_id, error)
                events = list(room.events)
            missing = [event for event in events if self._is_undecryptable(event)]
            for each in missing:
                await self._report(each, wait)
            still += missing
            messages += await self._messages(room.room_id, events, wait)
        self.remaining = self._bounded(still)
        return messages

    def confirm(self) -> None:
        """Confirm that the latest response is stored."""
        self.undecrypted = self.remaining
        self._is_first = False

    def _is_undecryptable(self, event: RoomEvent) -> TypeGuard[Undecrypted]:
        """Return whether an event of another user cannot be decrypted."""
        is_own = (
            isinstance(event, Undecrypted) and event.event.get("sender") == self._reader.user_id
        )
        return isinstance(event, Undecrypted) and not is_own

    def _retry_decryption(self) -> list[tuple[Undecrypted, Mapping[str, Any]]]:
        tried = ((each, self._client.encrypting.decrypt(each)) for each in self.undecrypted)
        return [(each, event) for each, event in tried if event is not None]

    async def _messages(
        self, room_id: str, events: Iterable[RoomEvent], wait: Wait
    ) -> list[Inbound]:
        view = self._client.room_details(room_id)
        plain = [event for event in events if not isinstance(event, Undecrypted)]
        read = (self._read(event, view) for event in with_edits(plain))
        return [
            await self._with_quotation(inbound, view, wait)
            for inbound in read
            if inbound is not None
        ]

    def _read(self, event: object, view: RoomDetails) -> Inbound | None:
        try:
            return self._reader.read(event, view)
        except UnreadablePayload as problem:
            self._skip(str(problem), event)
        except Exception:
            # An unexpected error must not block the events behind it.
            self.unreadable += 1
            logger.exception("matrix: an event could not be read")
        return None

    def _skip(self, why: str, event: object) -> None:
        self.unreadable += 1
        event_id = event.get("event_id") if isinstance(event, Mapping) else None
        logger.warning("matrix: event %.80r is skipped: %s", event_id, why)

    async def _with_quotation(self, inbound: Inbound, view: RoomDetails, wait: Wait) -> Inbound:
        """Add the quote of a reply; make only one request for it."""
        if inbound.reply_to is None or inbound.text.startswith(("/", "> ")):
            return inbound
        try:
            answered = await wait(self._client.event(view.room_id, inbound.reply_to))
        except PlatformError as error:
            logger.info("matrix: the message that is answered is not readable: %s", error)
            return inbound
        return self._reader.with_quotation(inbound, answered, view)

    async def _report(self, undecrypted: Undecrypted, wait: Wait) -> None:
        """Report an undecrypted event: in the log, and to the sender in a private chat."""
        event_id = undecrypted.event.get("event_id")
        sender = undecrypted.event.get("sender")
        logger.warning(
            "matrix: event %.80r of %.80r in %s cannot be decrypted yet: its key is missing",
            event_id,
            sender,
            undecrypted.room_id,
        )
        view = self._client.room_details(undecrypted.room_id)
        is_known = undecrypted.session_id in self._told
        self._told.add(undecrypted.session_id)
        if is_known or not view.is_direct or not is_event_id(event_id):
            return
        try:
            content = notice_content(_UNDECRYPTED_NOTICE, event_id)
            await wait(self._client.send(undecrypted.room_id, content, None))
        except PlatformError as error:
            logger.info("matrix: the notice about it could not be sent: %s", error)

    def _bounded(self, undecrypted: list[Undecrypted]) -> list[Undecrypted]:
        over = len(undecrypted) - _MAX_UNDECRYPTED
        if over > 0:
            logger.warning("matrix: gave up on %d events: their keys did not arrive", over)
        return undecrypted[-_MAX_UNDECRYPTED:]
