"""The webhook that Telegram calls; a secret in a header authenticates the calls."""

from __future__ import annotations

import hmac
from typing import Final

from starlette.requests import Request

from hermes_sessions.gateway.platforms.telegram.settings import TelegramWebhookSettings
from hermes_sessions.gateway.platforms.webhooks import (
    HeaderProof,
    ListenAddress,
    Proof,
    Take,
    Webhook,
)

SECRET_HEADER: Final = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - the name of a header
#: Telegram's updates are a few kilobytes. A larger body is not read.
MAX_BODY: Final = 1024**2


class WebhookServer(Webhook):
    """Listens from `start` to `stop`."""

    def __init__(self, settings: TelegramWebhookSettings, take: Take) -> None:
        self._secret = settings.secret.encode()
        address = ListenAddress(
            "platforms.telegram.webhook", settings.host, settings.port, settings.path
        )
        super().__init__(address, take, self._proof, refusal=403, max_body=MAX_BODY)

    def _proof(self, request: Request) -> Proof | None:
        given = request.headers.get(SECRET_HEADER, "").encode("latin-1")
        return HeaderProof() if hmac.compare_digest(given, self._secret) else None
