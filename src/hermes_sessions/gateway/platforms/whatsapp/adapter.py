"""A business number on WhatsApp: messages are brought by Meta, and confirmed when they are stored.

The Cloud API keeps trying for seven days to bring what was not confirmed. It has no edits, and no
keys by which sending twice would deliver once.
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

#: Sent messages whose progress is remembered.
_REMEMBERED: Final = 10_000
#: In which order a message gets on; Meta does not promise to tell it in that order.
_PROGRESS: Final = ("sent", "delivered", "read", "played", "failed")

_NUMBER: Final = re.compile(r"[0-9]{1,32}")
#: An id that stays when the number changes begins with a country: ``US.13491208655302741918``.
_LASTING_ID: Final = re.compile(r"[A-Z]{2}\.[A-Za-z0-9.]{1,160}")
_ANY_ID: Final = re.compile(r"[!-~]{1,512}")


class WhatsAppAdapter(Adapter):
    """One business number."""

    name: ClassVar[str] = "whatsapp"
    # WhatsApp speaks of 4,096 characters and not of how it counts them: this is safe either way.
    limits: ClassVar[Limits] = Limits(text=4096, length_unit="utf16", typing=True)

    def __init__(
        self, settings: WhatsAppSettings, *, clock: Callable[[], float] = time.time
    ) -> None:
        """*clock* tells the time in seconds since the epoch."""
        self._settings = settings
        self._clock = clock
        self._client: GraphClient | None = None
        self._webhook: WebhookServer | None = None
        self._services: Services | None = None
        self._reader: InboundReader | None = None
        self._is_connected = False
        #: Calls come on many connections; they are taken one after the other, as they came.
        self._turn = asyncio.Lock()
        self._statuses: OrderedDict[str, DeliveryStatus] = OrderedDict()
        #: Messages that could not be read since the start.
        self.unreadable = 0

    # ── connecting ────────────────────────────────────────────────────────────────────────────

    async def connect(self, services: Services) -> None:
        """See `Adapter.connect`. Meta is told where to bring messages in its dashboard, once."""
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
            "whatsapp: connected as number %s; messages are expected at port %d",
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
        """Where the webhook listens, which matters when the configured port is 0."""
        return self._webhook.port if self._webhook else None

    @property
    def _graph(self) -> GraphClient:
        if self._client is None:
            raise Unreachable("The adapter for WhatsApp is not connected.")
        return self._client

    # ── receiving ─────────────────────────────────────────────────────────────────────────────

    async def _take(self, payload: object) -> bool:
        """Take what a call brought; return whether it may be confirmed."""
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
                # Those before it come again with it, and are recognised by their ids.
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
        """Return how far a message that was sent has come, as far as Meta has told since the
        start; of the last 10,000 messages.
        """
        return self._statuses.get(message_id)

    async def _report(self, status: DeliveryStatus) -> bool:
        """Have the gateway know of what failed; return whether it does, so that Meta is heard."""
        if status.status != "failed" or status.key is None or self._services is None:
            return True
        why = explain_error(status.code, status.details)
        try:
            await self._services.undelivered(status.key, status.message_id, why)
        except HermesSessionsError as error:
            logger.warning("whatsapp: it cannot be stored yet what became of a reply: %s", error)
            return False
        return True

    def _note(self, status: DeliveryStatus) -> None:
        """Remember how far a message has come. Nobody is answered: there is nobody to answer."""
        before = self._statuses.pop(status.message_id, None)
        latest = status if before is None or _rank(status) >= _rank(before) else before
        self._statuses[status.message_id] = latest
        if len(self._statuses) > _REMEMBERED:
            self._statuses.popitem(last=False)
        if status.status != "failed":
            logger.debug("whatsapp: %s is %s", status.message_id, status.status)
        elif before is None or before.status != "failed":  # it may be told twice
            logger.warning(
                "whatsapp: reply %s (%s) was not delivered: %s",
                status.key or "unknown",
                status.message_id,
                explain_error(status.code, status.details),
            )

    # ── sending ───────────────────────────────────────────────────────────────────────────────

    async def send(self, target: Target, text: str, *, key: str) -> str:
        """See `Adapter.send`. *key* comes back with the statuses, and prevents nothing."""
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
        """A group, if it has the id of one."""
        return "group" if _recipient(chat_id)["recipient_type"] == "group" else "dm"

    async def typing(self, target: Target) -> None:
        """See `Adapter.typing`: WhatsApp shows it under a message, which it marks as read."""
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
        except PlatformError as error:  # not worth more than a line in the log
            logger.debug("whatsapp: typing could not be shown: %s", error)

    async def fetch(self, attachment: Attachment, *, limit: int) -> bytes:
        """See `Adapter.fetch`."""
        return await self._graph.fetch(
            attachment.reference, min(limit, self._settings.max_file_bytes)
        )


def _rank(status: DeliveryStatus) -> int:
    return _PROGRESS.index(status.status) if status.status in _PROGRESS else -1


def _recipient(chat_id: str) -> dict[str, str]:
    """Return how a person or a group is named to Meta, which goes by the form of the id."""
    if _NUMBER.fullmatch(chat_id):
        return {"recipient_type": "individual", "to": chat_id}
    if _LASTING_ID.fullmatch(chat_id):
        return {"recipient_type": "individual", "recipient": chat_id}
    if _is_id(chat_id):
        return {"recipient_type": "group", "to": chat_id}
    raise Undeliverable("That is not the id of a chat on WhatsApp.")


def _is_id(text: str | None) -> bool:
    return text is not None and bool(_ANY_ID.fullmatch(text))
