"""An account on Matrix: the sync position is saved after everything before it is stored."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from functools import partial
from typing import Any, ClassVar, Final

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.gateway.events import Attachment, Inbound, Target
from hermes_sessions.gateway.platforms.matrix.client import MatrixClient, SyncResult
from hermes_sessions.gateway.platforms.matrix.device_folder import DeviceFolder
from hermes_sessions.gateway.platforms.matrix.formatting import (
    TEXT_BYTES,
    edit_content,
    message_content,
    transaction_id,
)
from hermes_sessions.gateway.platforms.matrix.identifiers import is_event_id, is_room_id
from hermes_sessions.gateway.platforms.matrix.invitations import Invitations
from hermes_sessions.gateway.platforms.matrix.login import BotIdentity
from hermes_sessions.gateway.platforms.matrix.mapping import InboundReader
from hermes_sessions.gateway.platforms.matrix.settings import MatrixSettings
from hermes_sessions.gateway.platforms.matrix.sync_reader import SyncReader
from hermes_sessions.gateway.platforms.port import (
    Adapter,
    Limits,
    LoginRefused,
    PlatformError,
    Services,
    Undeliverable,
    Unreachable,
)
from hermes_sessions.gateway.platforms.receive_loop import (
    Sleep,
    Stopped,
    StopSignal,
    deliver_inbound,
    keep_receiving,
)

logger = logging.getLogger(__name__)

_SALT: Final = "matrix:salt"


class MatrixAdapter(Adapter):
    """One account, over the client-server API."""

    name: ClassVar[str] = "matrix"
    limits: ClassVar[Limits] = Limits(
        text=TEXT_BYTES,
        length_unit="bytes",
        edits=True,
        # Every edit is an event that stays in the room.
        edit_seconds=2.0,
        typing=True,
        idempotent=True,
    )

    def __init__(
        self,
        settings: MatrixSettings,
        *,
        device_folder: DeviceFolder,
        commands: frozenset[str] = frozenset(),
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """*keeping* is the folder of the device; *commands* may also start with ``!``."""
        self._settings = settings
        self._device_folder = device_folder
        self._commands = commands
        self._sleep = sleep
        self._invitations = Invitations(settings.invites)
        self._client: MatrixClient | None = None
        self._services: Services | None = None
        self._reading: SyncReader | None = None
        self._identity = BotIdentity("", None)
        self._salt = ""
        self._ending = StopSignal()
        self._loop: asyncio.Task[None] | None = None
        self._is_connected = False
        #: The position up to which everything is stored.
        self._since: str | None = None
        #: The next response, and its messages that are not stored yet, once it was read.
        self._news: SyncResult | None = None
        self._waiting: deque[Inbound] | None = None

    @property
    def unreadable(self) -> int:
        """How many events were unreadable since the start."""
        return self._reading.unreadable if self._reading else 0

    @property
    def undecrypted(self) -> int:
        """Events that wait for their keys."""
        return len(self._reading.undecrypted) if self._reading else 0

    # ── connecting ────────────────────────────────────────────────────────────────────────────

    async def connect(self, services: Services) -> None:
        """See `Adapter.connect`. At the first start of a device, older messages are ignored."""
        self._services = services
        self._ending = StopSignal()
        self._waiting = None
        client = MatrixClient(self._settings, self._device_folder)
        try:
            self._identity = identity = await client.log_in()
            self._salt = await self._load_salt(services)
            reader = InboundReader(
                user_id=identity.user_id,
                needs_mention=self._settings.require_mention,
                max_file_bytes=self._settings.max_file_bytes,
                commands=self._commands,
            )
            undecrypted = await asyncio.to_thread(self._device_folder.load_undecrypted)
            self._reading = SyncReader(client, reader, undecrypted)
            self._since = await asyncio.to_thread(
                self._device_folder.load_position, identity.user_id, identity.device_id or ""
            )
            self._news = await client.sync(self._since, 0, whole_state=True)
            await client.encrypting.sync_keys()
        except BaseException:
            await client.close()
            raise
        self._client = client
        self._is_connected = True
        self._loop = asyncio.create_task(self._stay_connected(client, self._reading))
        logger.info("matrix: connected as %s, device %s", *identity)

    async def _load_salt(self, services: Services) -> str:
        try:
            salt = await services.load_state(_SALT)
            if not salt:
                salt = secrets.token_hex(16)
                await services.save_state(_SALT, salt)
        except HermesSessionsError as error:
            raise Unreachable(f"The store is unavailable: {error}") from error
        return salt

    async def disconnect(self) -> None:
        """See `Adapter.disconnect`."""
        self._ending.ask()
        if self._loop is not None:
            await self._loop
        await self._invitations.stop()
        self._is_connected = False
        client, self._client = self._client, None
        self._loop = None
        if client is not None:
            await client.close()

    @property
    def is_connected(self) -> bool:
        """See `Adapter.is_connected`."""
        return self._is_connected

    @property
    def _session(self) -> MatrixClient:
        if self._client is None:
            raise Unreachable("The adapter for Matrix is not connected.")
        return self._client

    # ── receiving ─────────────────────────────────────────────────────────────────────────────

    async def _stay_connected(self, client: MatrixClient, reading: SyncReader) -> None:
        await keep_receiving(
            partial(self._receive, client, reading),
            self._ending,
            sleep=self._sleep,
            platform=self.name,
            logger=logger,
            lost=partial(self._lost, client),
        )

    async def _lost(self, client: MatrixClient, error: PlatformError) -> None:
        self._is_connected = False
        if not isinstance(error, LoginRefused) or not self._settings.password:
            return
        try:
            await client.log_in()
        except PlatformError as failure:
            logger.warning("matrix: a new login failed: %s", failure)

    async def _receive(self, client: MatrixClient, reading: SyncReader) -> bool:
        """Deliver the messages of one response; return whether all of them are stored."""
        if self._news is None:
            self._news = await self._ending.result_unless_stopped(
                client.sync(self._since, self._settings.sync_seconds, whole_state=False)
            )
            self._is_connected = True
            await client.encrypting.sync_keys()
        if self._waiting is None:
            self._invitations.add(self._news.invitations)
            found = await reading.read(self._news, self._since, self._ending.result_unless_stopped)
            self._waiting = deque(found)
        if self._services is not None:
            self._invitations.answer(client, self._services)
        while self._waiting:
            if self._ending.is_stop_requested:
                raise Stopped
            if not await self._offer(self._waiting[0]):
                return False
            self._waiting.popleft()
        return await self._confirm(self._news, reading)

    async def _confirm(self, news: SyncResult, reading: SyncReader) -> bool:
        """Save the sync position: everything before it is stored, or waits on disk for its key."""
        user_id, device_id = self._identity
        try:
            if reading.remaining != reading.undecrypted:
                await asyncio.to_thread(self._device_folder.save_undecrypted, reading.remaining)
            if news.since != self._since:
                await asyncio.to_thread(
                    self._device_folder.save_position, user_id, device_id or "", news.since
                )
        except OSError as error:
            logger.warning("matrix: the sync position cannot be saved: %s", error)
            return False
        reading.confirm()
        self._since = news.since
        self._news = self._waiting = None
        return True

    async def _offer(self, inbound: Inbound) -> bool:
        def skip(why: str) -> None:
            logger.warning("matrix: event %s is skipped: %s", inbound.message_id, why)

        return await deliver_inbound(
            self._services, inbound, named="matrix: a message", skip=skip, logger=logger
        )

    # ── sending ───────────────────────────────────────────────────────────────────────────────

    async def send(self, target: Target, text: str, *, key: str) -> str:
        """See `Adapter.send`. The homeserver accepts a key once."""
        room_id = _room(target)
        transaction = transaction_id(self._salt, room_id, key)
        return await self._send(room_id, message_content(target, text), transaction)

    def chat_type_of(self, chat_id: str) -> str:
        """Return "dm" if the room has two members or is marked as direct, else "group"."""
        return (
            "dm"
            if self._client is None or self._client.room_details(chat_id).is_direct
            else "group"
        )

    async def edit(self, target: Target, message_id: str, text: str) -> None:
        """See `Adapter.edit`."""
        if not is_event_id(message_id):
            raise Undeliverable(f"{message_id[:80]!r} is not the id of a message on Matrix.")
        # Without a key: the same text may be right again after another edit.
        await self._send(_room(target), edit_content(message_id, text), None)

    async def _send(self, room_id: str, content: dict[str, Any], transaction: str | None) -> str:
        try:
            return await self._session.send(room_id, content, transaction)
        except LoginRefused as error:
            # The sync loop or the owner handles it; the reply waits.
            raise Unreachable(str(error)) from error

    async def typing(self, target: Target) -> None:
        """See `Adapter.typing`. Errors are only logged."""
        try:
            await self._session.show_typing(_room(target))
        except PlatformError as error:
            logger.debug("matrix: typing could not be shown: %s", error)

    async def fetch(self, attachment: Attachment, *, limit: int) -> bytes:
        """See `Adapter.fetch`."""
        return await self._session.fetch(attachment, limit)


def _room(target: Target) -> str:
    if not is_room_id(target.chat_id):
        raise Undeliverable(
            f"{target.chat_id[:80]!r} is not a room on Matrix: its id starts with an exclamation "
            "mark."
        )
    return target.chat_id
