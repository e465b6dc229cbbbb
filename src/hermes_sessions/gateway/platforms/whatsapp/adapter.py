"""A business number on WhatsApp: messages arrive by webhook, and are confirmed after they are
stored.

The Cloud API redelivers unconfirmed messages for seven days. It has no edits and no idempotency
keys.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar, Final

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.gateway.events import Attachment, Inbound, Target
from hermes_sessions.gateway.platforms.port import (
    Adapter,
    Limits,
    PlatformError,
    Services,
    Undeliverable,
    Unreachable,
)
from hermes_sessions.gateway.platforms.receive_loop import deliver_inbound
from hermes_sessions.gateway.platforms.whatsapp.client import GraphClient
from hermes_sessions.gateway.platforms.whatsapp.errors import explain_error
from hermes_sessions.gateway.platforms.whatsapp.formatting import to_whatsapp
from hermes_sessions.gateway.platforms.whatsapp.mapping import DeliveryStatus, InboundReader
from hermes_sessions.gateway.platforms.whatsapp.settings import WhatsAppSettings
from hermes_sessions.gateway.platforms.whatsapp.webhook import WebhookServer

logger = logging.getLogger(__name__)

#: How many sent messages have a known status.
_REMEMBERED: Final = 10_000
#: The order of statuses; Meta may send them in another.
_PROGRESS: Final = ("sent", "delivered", "read", "played", "failed")

_NUMBER: Final = re.compile(r"[0-9]{1,32}")
#: An id that stays the same when the number changes starts with a country:
#: ``US.13491208655302741918``.
_LASTING_ID: Final = re.compile(r"[A-Z]{2}\.[A-Za-z0-9.]{1,160}")
_ANY_ID: Final = re.compile(r"[!-~]{1,512}")


class WhatsAppAdapter(Adapter):
    """One business number."""

    name: ClassVar[str] = "whatsapp"
    # WhatsApp does not document the unit of its 4,096 characters; UTF-16 units are safe either way.
    limits: ClassVar[Limits] = Limits(text=4096, length_unit="utf16", typing=True)

    def __init__(
        self, settings: WhatsAppSettings, *, clock: Callable[[], float] = time.time
    ) -> None:
        """*clock* returns seconds since the epoch."""
        self._settings = settings
        self._clock = clock
        self._client: GraphClient | None = None
        self._webhook: WebhookServer | None = None
        self._services: Services | None = None
        self._reader: InboundReader | None = None
        self._is_connected = False
        #: Requests arrive on many connections; they are handled one at a time, in order of arrival.
        self._turn = asyncio.Lock()
        self._statuses: OrderedDict[str, DeliveryStatus] = OrderedDict()
        #: How many messages were unreadable since the start.
        self.unreadable = 0

    # ── connecting ────────────────────────────────────────────────────────────────────────────

    async def connect(self, services: Services) -> None:
        """See `Adapter.connect`. The URL of the webhook is registered in Meta's dashboard."""
        self._services = services
        self._turn = asyncio.Lock()
        self._client = GraphClient(self._settings)
        try:
            identity = await self._client.identify()
            self._reader = InboundReader(self._settings.phone_number_id, identity.digits)
            self._webhook = WebhookServer(self._settings, self._take)
            await self._webhook.start()
        except BaseException:
            await self.disconnect()
            raise
        self._is_connected = True
        logger.info(
            "whatsapp: connected as number %s; listening for messages on port %d",
            self._settings.phone_number_id,
            self._webhook.port,
        )

    async def disconnect(self) -> None:
        """See `Adapter.disconnect`."""
        self._is_connected = False
        webhook, self._webhook = self._webhook, None
        if webhook is not None:
            await webhook.stop()
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @property
    def is_connected(self) -> bool:
        """See `Adapter.is_connected`."""
        return self._is_connected and self._webhook is not None and self._webhook.is_running

    @property
    def webhook_port(self) -> int | None:
        """The port of the webhook, for when the configured port is 0."""
        return self._webhook.port if self._webhook else None

    @property
    def _graph(self) -> GraphClient:
        if self._client is None:
            raise Unreachable("The adapter for WhatsApp is not connected.")
        return self._client

    # ── receiving ─────────────────────────────────────────────────────────────────────────────

    async def _take(self, payload: object) -> bool:
        """Deliver the payload of a request; return whether to confirm it."""
        async with self._turn:
            if self._reader is None:
                return False
            brought = self._reader.read(payload, now=self._clock())
            for problem in brought.problems:
                self._skip(str(problem))
            for status in brought.statuses:
                if not await self._report(status):
                    return False
                self._note(status)
            for inbound in brought.messages:
                # The messages before it are redelivered with it, and recognised by their ids.
                if not await self._offer(inbound):
                    return False
            return True

    async def _offer(self, inbound: Inbound) -> bool:
        return await deliver_inbound(
            self._services, inbound, named="whatsapp: a message", skip=self._skip, logger=logger
        )

    def _skip(self, why: str) -> None:
        self.unreadable += 1
        logger.warning("whatsapp: skipped: %s", why)

    # ── what became of what was sent ──────────────────────────────────────────────────────────

    def status_of(self, message_id: str) -> DeliveryStatus | None:
        """Return the latest known status of a sent message, None if unknown. Covers the last 10,000
        messages since the start.
        """
        return self._statuses.get(message_id)

    async def _report(self, status: DeliveryStatus) -> bool:
        """Report a failed reply to the gateway; return False if that could not be stored, so that
        Meta sends the status again.
        """
        if status.status != "failed" or status.key is None or self._services is None:
            return True
        why = explain_error(status.code, status.details)
        try:
            await self._services.undelivered(status.key, status.message_id, why)
        except HermesSessionsError as error:
            logger.warning("whatsapp: the status of a reply cannot be stored yet: %s", error)
            return False
        return True

    def _note(self, status: DeliveryStatus) -> None:
        """Remember the status of a sent message."""
        before = self._statuses.pop(status.message_id, None)
        latest = status if before is None or _rank(status) >= _rank(before) else before
        self._statuses[status.message_id] = latest
        if len(self._statuses) > _REMEMBERED:
            self._statuses.popitem(last=False)
        if status.status != "failed":
            logger.debug("whatsapp: %s is %s", status.message_id, status.status)
        elif before is None or before.status != "failed":  # Meta may send it twice
            logger.warning(
                "whatsapp: reply %s (%s) was not delivered: %s",
                status.key or "unknown",
                status.message_id,
                explain_error(status.code, status.details),
            )

    # ── sending ───────────────────────────────────────────────────────────────────────────────

    async def send(self, target: Target, text: str, *, key: str) -> str:
        """See `Adapter.send`. Meta returns *key* with the statuses; it does not deduplicate."""
        message: dict[str, Any] = {
            "messaging_product": "whatsapp",
            **_recipient(target.chat_id),
            "type": "text",
            "text": {"preview_url": False, "body": to_whatsapp(text)},
            "biz_opaque_callback_data": key[:512],
        }
        if message["recipient_type"] == "group" and _is_id(target.reply_to):
            message["context"] = {"message_id": target.reply_to}
        return await self._graph.send(message)

    def chat_type_of(self, chat_id: str) -> str:
        """Return "group" if the id is that of a group, else "dm"."""
        return "group" if _recipient(chat_id)["recipient_type"] == "group" else "dm"

    async def typing(self, target: Target) -> None:
        """See `Adapter.typing`. WhatsApp shows it below a message and marks that as read."""
        if not _is_id(target.reply_to):
            return
        try:
            await self._graph.mark(
                {
                    "messaging_product": "whatsapp",
                    "status": "read",
                    "message_id": target.reply_to,
                    "typing_indicator": {"type": "text"},
                }
            )
        except PlatformError as error:  # typing is not important
            logger.debug("whatsapp: typing could not be shown: %s", error)

    async def fetch(self, attachment: Attachment, *, limit: int) -> bytes:
        """See `Adapter.fetch`."""
        return await self._graph.fetch(
            attachment.reference, min(limit, self._settings.max_file_bytes)
        )


def _rank(status: DeliveryStatus) -> int:
    return _PROGRESS.index(status.status) if status.status in _PROGRESS else -1


def _recipient(chat_id: str) -> dict[str, str]:
    """Return the recipient fields for a user or a group, by the format of the id."""
    if _NUMBER.fullmatch(chat_id):
        return {"recipient_type": "individual", "to": chat_id}
    if _LASTING_ID.fullmatch(chat_id):
        return {"recipient_type": "individual", "recipient": chat_id}
    if _is_id(chat_id):
        return {"recipient_type": "group", "to": chat_id}
    raise Undeliverable("That is not the id of a chat on WhatsApp.")


def _is_id(text: str | None) -> bool:
    return text is not None and bool(_ANY_ID.fullmatch(text))
