"""An app on Slack: events are acknowledged after the gateway has stored them."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import ClassVar, Final

from hermes_sessions.errors import HermesSessionsError, InvalidInput, StoreError
from hermes_sessions.gateway.events import Attachment, Inbound, Target
from hermes_sessions.gateway.platforms.port import (
    Adapter,
    Limits,
    LoginRefused,
    PlatformError,
    Services,
    Undeliverable,
    Unreachable,
    UnreadablePayload,
)
from hermes_sessions.gateway.platforms.receive_loop import Sleep
from hermes_sessions.gateway.platforms.slack.client import BotIdentity, SlackClient
from hermes_sessions.gateway.platforms.slack.directory import Directory
from hermes_sessions.gateway.platforms.slack.errors import NotAccepted
from hermes_sessions.gateway.platforms.slack.formatting import to_mrkdwn
from hermes_sessions.gateway.platforms.slack.mapping import InboundReader, SlackMessage
from hermes_sessions.gateway.platforms.slack.settings import SlackSettings
from hermes_sessions.gateway.platforms.slack.socket_mode import SocketMode
from hermes_sessions.gateway.platforms.slack.threads import FollowedThreads, with_thread_history
from hermes_sessions.gateway.platforms.slack.webhook import WebhookServer
from hermes_sessions.storage.logs import where

logger = logging.getLogger(__name__)

#: Without this scope the bot cannot reply; without the others a feature is missing.
NEEDED_SCOPE: Final = "chat:write"
SCOPES: Final = (
    "app_mentions:read",
    "channels:history",
    "channels:read",
    NEEDED_SCOPE,
    "commands",
    "files:read",
    "groups:history",
    "groups:read",
    "im:history",
    "mpim:history",
    "mpim:read",
    "users:read",
)

#: Longest text of an edit, in UTF-16 units as sent; a new message may be longer.
_MAX_EDIT: Final = 4000
_CHAT_ID: Final = re.compile(r"[A-Z0-9]{2,32}")
_TS: Final = re.compile(r"[0-9]{1,16}\.[0-9]{1,9}")


class SlackAdapter(Adapter):
    """One bot in one workspace, over Socket Mode or the Events API."""

    name: ClassVar[str] = "slack"
    # Slack recommends 4,000 characters, and refuses longer edits. It does not document the unit, so
    # this counts UTF-16 units, which is safe either way.
    limits: ClassVar[Limits] = Limits(text=4000, length_unit="utf16", edits=True, edit_seconds=1.5)

    def __init__(
        self,
        settings: SlackSettings,
        *,
        commands: Iterable[str] = (),
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.time,
        name_seconds: float = 1.0,
    ) -> None:
        """*commands* are the names of the gateway's commands; *clock* returns seconds since the
        epoch. A message waits *name_seconds* for the sender's name, and as long for the earlier
        messages of its thread: Slack expects an acknowledgement within three seconds.
        """
        self._settings = settings
        self._commands = frozenset(commands)
        self._sleep = sleep
        self._clock = clock
        self._name_seconds = name_seconds
        self._client: SlackClient | None = None
        self._services: Services | None = None
        self._reader: InboundReader | None = None
        self._directory: Directory | None = None
        self._threads: FollowedThreads | None = None
        self._connection: SocketMode | WebhookServer | None = None
        #: Requests arrive on many connections; they are handled one at a time, in order of arrival.
        self._turn = asyncio.Lock()
        #: How many payloads were unreadable since the start.
        self.unreadable = 0

    # ── connecting ────────────────────────────────────────────────────────────────────────────

    async def connect(self, services: Services) -> None:
        """See `Adapter.connect`."""
        self._services = services
        self._turn = asyncio.Lock()
        self._client = client = SlackClient(self._settings)
        try:
            identity = await client.identify()
            self._check_scopes(identity)
            self._reader = InboundReader(
                user_id=identity.user_id,
                team_id=identity.team_id,
                needs_mention=self._settings.require_mention,
                opens_threads=self._settings.reply_in_thread,
                max_file_bytes=self._settings.max_file_bytes,
                commands=self._commands,
            )
            self._directory = Directory(client, patience=self._name_seconds)
            self._threads = FollowedThreads(services, identity.team_id)
            self._connection = self._make_connection(client)
            await self._connection.start()
        except BaseException:
            await self.disconnect()
            raise
        where = f"; listening for events on port {self.webhook_port}" if self.webhook_port else ""
        logger.info("slack: connected to %s as @%s%s", identity.team, identity.name, where)

    def _make_connection(self, client: SlackClient) -> SocketMode | WebhookServer:
        if self._settings.app_token:
            return SocketMode(client, self._take, sleep=self._sleep)
        return WebhookServer(self._settings, self._take, clock=self._clock)

    def _check_scopes(self, identity: BotIdentity) -> None:
        if not identity.scopes:
            return
        if NEEDED_SCOPE not in identity.scopes:
            raise LoginRefused(
                f"The app is missing the scope {NEEDED_SCOPE}: add it under OAuth & Permissions, "
                "and reinstall the app."
            )
        if missing := [scope for scope in SCOPES if scope not in identity.scopes]:
            logger.warning(
                "slack: the app is missing the scopes %s; add them under OAuth & Permissions and "
                "reinstall the app, unless you left them out on purpose",
                ", ".join(missing),
            )

    async def disconnect(self) -> None:
        """See `Adapter.disconnect`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.stop()
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @property
    def is_connected(self) -> bool:
        """See `Adapter.is_connected`."""
        return self._connection is not None and self._connection.is_running

    @property
    def webhook_port(self) -> int | None:
        """The port of the webhook, for when the configured port is 0."""
        return self._connection.port if isinstance(self._connection, WebhookServer) else None

    @property
    def _slack(self) -> SlackClient:
        if self._client is None:
            raise Unreachable("The adapter for Slack is not connected.")
        return self._client

    # ── receiving ─────────────────────────────────────────────────────────────────────────────

    async def _take(self, payload: object) -> None:
        """Deliver a payload from Slack.

        Raises:
            NotAccepted: it was not stored, and must not be acknowledged.
        """
        async with self._turn:
            try:
                await self._deliver(payload)
            except (UnreadablePayload, InvalidInput) as error:
                self.unreadable += 1
                logger.warning("slack: skipped: %s", error)
            except HermesSessionsError as error:
                logger.warning("slack: a message cannot be stored yet: %s", error)
                raise NotAccepted from error
            except Exception as error:
                # A payload that is not stored must not be acknowledged, whatever the error.
                logger.exception("slack: a message could not be delivered")
                raise NotAccepted from error

    async def _deliver(self, payload: object) -> None:
        services, reader = self._services, self._reader
        directory, threads = self._directory, self._threads
        if services is None or reader is None or directory is None or threads is None:
            raise Unreachable("The adapter for Slack is not connected.")
        message = _read_message(reader, payload)
        if message is None:
            return
        source = message.inbound.source
        chat_id, thread_id = source.chat_id, source.thread_id
        if not message.is_addressed and not await threads.is_followed(chat_id, thread_id or ""):
            return
        try:
            inbound = await directory.with_names(message)
            if thread_id is not None and await self._is_new_in(threads, inbound, services):
                inbound = await with_thread_history(
                    self._slack, inbound, user_id=reader.user_id, patience=self._name_seconds
                )
        except HermesSessionsError:
            raise
        except Exception:
            # The message matters more than its names and its context.
            logger.exception("slack: a message is delivered without names and context")
            inbound = message.inbound
        receipt = await services.accept(inbound)
        if thread_id is not None and receipt.status != "refused":
            await threads.follow(chat_id, thread_id)

    async def _is_new_in(
        self, threads: FollowedThreads, inbound: Inbound, services: Services
    ) -> bool:
        """Return whether this is the first message to the bot in a thread that others started.
        False for commands and for senders without access, who need no context.
        """
        source = inbound.source
        if source.thread_id == inbound.message_id or inbound.text.startswith("/"):
            return False
        try:
            is_followed = await threads.is_followed(source.chat_id, source.thread_id or "")
            return not is_followed and await services.may_talk(source)
        except StoreError:
            return False  # the message should not wait for it

    # ── sending ───────────────────────────────────────────────────────────────────────────────

    async def send(self, target: Target, text: str, *, key: str) -> str:  # noqa: ARG002
        """See `Adapter.send`. Slack has no idempotency keys."""
        return await self._slack.post(_chat_of(target), to_mrkdwn(text), _thread_of(target))

    def chat_type_of(self, chat_id: str) -> str:
        """Return "dm" if the id is that of a private chat, else "channel"."""
        return "dm" if chat_id.startswith("D") else "channel"

    async def edit(self, target: Target, message_id: str, text: str) -> None:
        """See `Adapter.edit`.

        If the text is too long for an edit, the draft is deleted and the caller sends a new message
        instead.
        """
        if not _TS.fullmatch(message_id):
            raise Undeliverable(f"{message_id!r} is not the id of a message on Slack.")
        chat_id, shown = _chat_of(target), to_mrkdwn(text)
        if len(shown.encode("utf-16-le")) // 2 > _MAX_EDIT:
            with suppress(PlatformError):
                await self._slack.delete(chat_id, message_id)
            raise Undeliverable(
                "With its special characters escaped, the text is too long for an edit."
            )
        await self._slack.update(chat_id, message_id, shown)

    async def fetch(self, attachment: Attachment, *, limit: int) -> bytes:
        """See `Adapter.fetch`."""
        limit = min(limit, self._settings.max_file_bytes)
        return await self._slack.fetch(attachment.reference, limit)


def _read_message(reader: InboundReader, payload: object) -> SlackMessage | None:
    try:
        return reader.read(payload)
    except UnreadablePayload:
        raise
    except Exception as error:
        # A retry would fail in the same way and block the messages behind it.
        raise UnreadablePayload(f"parsing failed: {where(error)}") from error


def _chat_of(target: Target) -> str:
    if not _CHAT_ID.fullmatch(target.chat_id):
        raise Undeliverable("That is not the id of a channel on Slack.")
    return target.chat_id


def _thread_of(target: Target) -> str | None:
    if target.thread_id and not _TS.fullmatch(target.thread_id):
        raise Undeliverable(f"{target.thread_id!r} is not the id of a thread on Slack.")
    return target.thread_id
