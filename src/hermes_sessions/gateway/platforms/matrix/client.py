"""The client-server API through matrix-nio; its errors become those of the port."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nio import (
    AccountDataEvent,
    AsyncClient,
    AsyncClientConfig,
    EphemeralEvent,
    ErrorResponse,
    Event,
    ForwardedRoomKeyEvent,
    InviteEvent,
    MatrixRoom,
    MegolmEvent,
    MessageDirection,
    PresenceEvent,
    RoomKeyEvent,
    RoomMessagesResponse,
    SyncResponse,
    ToDeviceEvent,
)
from nio.crypto import decrypt_attachment

from hermes_sessions.gateway.events import Attachment
from hermes_sessions.gateway.platforms.matrix.attachments import MediaReference, reference_of
from hermes_sessions.gateway.platforms.matrix.device_folder import DeviceFolder, Undecrypted
from hermes_sessions.gateway.platforms.matrix.encryption import RoomEncryption
from hermes_sessions.gateway.platforms.matrix.errors import checked, refusal, translated
from hermes_sessions.gateway.platforms.matrix.login import BotIdentity, log_in, try_login
from hermes_sessions.gateway.platforms.matrix.mapping import RoomDetails
from hermes_sessions.gateway.platforms.matrix.settings import MatrixSettings
from hermes_sessions.gateway.platforms.port import Undeliverable

# Remove events that the library cannot parse from a response.  The library would refuse the whole
# response because of one of them, on every retry, and never get past it.

#: Exceptions of the library for data that does not match the specification.
PARSE_ERRORS: Final = (AttributeError, LookupError, TypeError, ValueError)

#: Parsers for the events in each part of a response; a page of history has them at the top.
_READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "": Event.parse_event,
    "account_data": AccountDataEvent.parse_event,
    "ephemeral": EphemeralEvent.parse_event,
    "invite_state": InviteEvent.parse_event,
    "presence": PresenceEvent.from_dict,
    "state": Event.parse_event,
    "timeline": Event.parse_event,
    "to_device": ToDeviceEvent.parse_event,
}


def drop_unparsable_events(answer: object, part: str = "") -> tuple[Any, int]:
    """Return a response without unparsable events, and how many those were."""
    if not isinstance(answer, Mapping):
        return answer, 0
    found: dict[str, Any] = {}
    dropped = 0
    for name, value in answer.items():
        if name in ("events", "chunk") and isinstance(value, list) and part in _READERS:
            found[name] = [event for event in value if _can_parse(event, _READERS[part])]
            dropped += len(value) - len(found[name])
        else:
            found[name], missing = drop_unparsable_events(value, name)
            dropped += missing
    return found, dropped


def _can_parse(event: object, read: Callable[[Any], object]) -> bool:
    if not isinstance(event, Mapping):
        return False
    try:
        read(event)
    except PARSE_ERRORS:
        return False
    return True


logger = logging.getLogger(__name__)

# These loggers would log the content of unparsable data; we log only that it exists.
for _name in ("nio.events.misc", "nio.responses"):
    logging.getLogger(_name).addFilter(lambda _record: False)

_REQUEST_SECONDS: Final = 30.0
_STATE_SECONDS: Final = 300.0
_FILE_SECONDS: Final = 300.0
#: Typing is renewed every four seconds.
_TYPING_MILLISECONDS: Final = 6_000
#: Events per room in one response; earlier ones are requested separately.
TIMELINE_LIMIT: Final = 50
_PAGE: Final = 100
_NO_EVENTS: Final = {"not_types": ["*"]}
_FILTER: Final = {
    "presence": _NO_EVENTS,
    "account_data": {"types": ["m.direct"]},
    "room": {
        "timeline": {"limit": TIMELINE_LIMIT},
        "ephemeral": _NO_EVENTS,
        "account_data": _NO_EVENTS,
    },
}


@dataclass(frozen=True, slots=True)
class RoomTimeline:
    """New events of a room, in order, including those that could not be decrypted."""

    room_id: str
    events: list[Mapping[str, Any] | Undecrypted]
    #: Where to request the events between the last response and these; None if there are none.
    gap_before: str | None = None


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invitation to a room."""

    room_id: str
    inviter: str | None


@dataclass(frozen=True, slots=True)
class SyncResult:
    """One response of the homeserver."""

    #: The position of the next request.
    since: str
    rooms: list[RoomTimeline] = field(default_factory=list)
    invitations: list[Invitation] = field(default_factory=list)
    has_keys: bool = False


class _StrictClient(AsyncClient):  # type: ignore[misc] # the library has no types
    """Checks the status of a response: the library treats an error without a body as success, and
    cannot parse some errors with a body.
    """

    async def create_matrix_response(
        self,
        response_class: type,
        transport_response: Any,
        data: tuple[Any, ...] | None = None,
        save_to: Any = None,
    ) -> Any:
        if transport_response.status < 300:
            try:
                return await super().create_matrix_response(
                    response_class, transport_response, data, save_to
                )
            except PARSE_ERRORS:
                if response_class not in (SyncResponse, RoomMessagesResponse):
                    raise
            return await self._drop_unparsable(response_class, transport_response, data or ())
        error = ErrorResponse.from_dict(await self.parse_body(transport_response))
        error.transport_response = transport_response
        return error

    async def _drop_unparsable(
        self, response_class: Any, transport_response: Any, data: tuple[Any, ...]
    ) -> Any:
        found, dropped = drop_unparsable_events(await self.parse_body(transport_response))
        answer = response_class.from_dict(found, *data)
        answer.transport_response = transport_response
        logger.warning("matrix: %d events are skipped: they are not readable", dropped)
        return answer


class MatrixClient:
    """One session of an account. Every call raises only errors of the port."""

    def __init__(self, settings: MatrixSettings, device_folder: DeviceFolder) -> None:
        self._settings = settings
        self._device_folder = device_folder
        self._nio = _StrictClient(
            settings.homeserver,
            settings.user or "",
            store_path=str(device_folder.folder),
            config=AsyncClientConfig(
                max_limit_exceeded=0,
                max_timeouts=0,
                request_timeout=_REQUEST_SECONDS,
                store_sync_tokens=False,
                encryption_enabled=True,
            ),
        )
        self.encrypting = RoomEncryption(self._nio)
        #: Rooms that the account marks as direct.
        self._direct: frozenset[str] = frozenset()

    async def log_in(self) -> BotIdentity:
        """Log in, again if the login has ended.

        Raises:
            LoginRefused, Unreachable, RateLimited
        """
        identity = await log_in(self._nio, self._settings, self._device_folder)
        await self.encrypting.sync_keys()
        return identity

    async def try_login(self) -> BotIdentity:
        """Return the account of the credentials, without side effects.

        Raises:
            LoginRefused, Unreachable, RateLimited
        """
        return await try_login(self._nio, self._settings, self._device_folder)

    async def close(self) -> None:
        """Close every connection, and the key store."""
        await self._nio.close()
        if self._nio.store is not None:
            self._nio.store.database.close()
            self._nio.store = self._nio.olm = None

    # ── receiving ─────────────────────────────────────────────────────────────────────────────

    async def sync(self, since: str | None, seconds: int, *, whole_state: bool) -> SyncResult:
        """Return new events; wait for them if there are none. With *whole_state*, the library loads
        the state of all rooms, which it does not persist.

        Raises:
            LoginRefused, Unreachable, RateLimited
        """
        # Otherwise the library would skip a response that it failed to process.
        self._nio.next_batch = ""
        with translated():
            # With the whole state, the library would wait without a timeout.
            async with asyncio.timeout(_STATE_SECONDS if whole_state else None):
                answer = checked(
                    await self._nio.sync(
                        timeout=seconds * 1000,
                        since=since,
                        sync_filter=_FILTER,
                        full_state=whole_state or None,
                    )
                )
            for event in answer.account_data_events:
                if (rooms := _direct_rooms(event)) is not None:
                    self._direct = rooms
        return SyncResult(
            since=answer.next_batch,
            rooms=[
                RoomTimeline(
                    room_id,
                    _sources(room_id, room.timeline.events),
                    room.timeline.prev_batch if room.timeline.limited else None,
                )
                for room_id, room in answer.rooms.join.items()
            ],
            invitations=[
                Invitation(room_id, _inviter(invite.invite_state, self._nio.user_id))
                for room_id, invite in answer.rooms.invite.items()
            ],
            has_keys=any(
                isinstance(event, RoomKeyEvent | ForwardedRoomKeyEvent)
                for event in answer.to_device_events
            ),
        )

    async def events_before(
        self, room_id: str, start: str, until: str
    ) -> tuple[list[Mapping[str, Any] | Undecrypted], str | None]:
        """Return a page of events before *start*, newest first, and the next position."""
        with translated():
            page = checked(
                await self._nio.room_messages(
                    room_id, start, until, direction=MessageDirection.back, limit=_PAGE
                )
            )
        return _sources(room_id, page.chunk), page.end if page.chunk else None

    async def event(self, room_id: str, event_id: str) -> Mapping[str, Any]:
        """Return one event, decrypted if possible."""
        with translated():
            answer = checked(await self._nio.room_get_event(room_id, event_id))
        source: Mapping[str, Any] = answer.event.source
        return source

    def room_details(self, room_id: str) -> RoomDetails:
        """Return the details of a room."""
        room: MatrixRoom | None = self._nio.rooms.get(room_id)
        if room is None:
            return RoomDetails(room_id)
        return RoomDetails(
            room_id,
            name=room.named_room_name(),
            topic=room.topic,
            is_direct=room_id in self._direct or room.joined_count <= 2,
            names={user_id: user.name for user_id, user in room.users.items()},
        )

    # ── sending ───────────────────────────────────────────────────────────────────────────────

    async def send(self, room_id: str, content: dict[str, Any], transaction: str | None) -> str:
        """Send a message, encrypted if the room is, and return the event's id.

        Raises:
            LoginRefused, Unreachable, RateLimited, Undeliverable
        """
        await self.encrypting.prepare(room_id)
        with translated():
            answer = checked(
                await self._nio.room_send(
                    room_id,
                    "m.room.message",
                    content,
                    tx_id=transaction,
                    ignore_unverified_devices=True,
                )
            )
        return str(answer.event_id)

    async def show_typing(self, room_id: str) -> None:
        """Show for some seconds that the account is typing."""
        with translated():
            checked(await self._nio.room_typing(room_id, timeout=_TYPING_MILLISECONDS))

    async def join(self, room_id: str) -> None:
        """Accept an invitation."""
        with translated():
            checked(await self._nio.join(room_id))

    async def decline(self, room_id: str) -> None:
        """Decline an invitation."""
        with translated():
            checked(await self._nio.room_leave(room_id))

    # ── files ─────────────────────────────────────────────────────────────────────────────────

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Return a file's contents, decrypted.

        Raises:
            Undeliverable: it no longer exists, is larger than *limit*, or does not match its key.
            LoginRefused, Unreachable, RateLimited
        """
        reference = reference_of(attachment)
        with translated():
            content = await self._download(reference, limit)
            if reference.lock is None:
                return content
            lock = reference.lock
            decrypted: bytes = decrypt_attachment(content, lock.key, lock.sha256, lock.iv)
        return decrypted

    async def _download(self, reference: MediaReference, limit: int) -> bytes:
        path = f"/_matrix/client/v1/media/download/{reference.server}/{reference.media_id}"
        headers = {"Authorization": f"Bearer {self._nio.access_token}"}
        answer = await self._nio.send("GET", path, headers=headers, timeout=_FILE_SECONDS)
        async with answer:
            if answer.status >= 300:
                raise _refused(answer.status, await answer.content.read(10_000), answer.headers)
            content = bytearray()
            async for piece in answer.content.iter_chunked(64 * 1024):
                content += piece
                if len(content) > limit:
                    raise Undeliverable(f"The file has more than {limit:,} bytes.")
        return bytes(content)


def _refused(status: int, body: bytes, headers: Any) -> Exception:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) else {}
    code = said.get("errcode")
    return refusal(
        status,
        code if isinstance(code, str) else None,
        str(said.get("error", "a file")),
        said.get("retry_after_ms"),
        headers,
    )


def _sources(room_id: str, events: list[Any]) -> list[Mapping[str, Any] | Undecrypted]:
    """Return events as received, or decrypted."""
    return [
        Undecrypted(room_id, event.source) if isinstance(event, MegolmEvent) else event.source
        for event in events
    ]


def _inviter(state: list[Any], user_id: str) -> str | None:
    for event in state:
        source = event.source
        if source.get("type") == "m.room.member" and source.get("state_key") == user_id:
            sender = source.get("sender")
            return sender if isinstance(sender, str) else None
    return None


def _direct_rooms(event: Any) -> frozenset[str] | None:
    content = getattr(event, "content", None)
    if getattr(event, "type", None) != "m.direct" or not isinstance(content, Mapping):
        return None
    lists = (rooms for rooms in content.values() if isinstance(rooms, list))
    return frozenset(room for rooms in lists for room in rooms if isinstance(room, str))
