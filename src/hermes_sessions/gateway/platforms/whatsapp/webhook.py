"""The webhook for Meta's messages.

A request is genuine if its body is signed with the app's secret. The signature has no timestamp, so
that a replayed request is valid: its messages are recognised by their ids and their age.
"""

from __future__ import annotations

import hmac
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hermes_sessions.gateway.platforms.webhooks import (
    ListenAddress,
    Proof,
    Signature,
    Take,
    Webhook,
)
from hermes_sessions.gateway.platforms.whatsapp.settings import WhatsAppSettings

SIGNATURE_HEADER: Final = "X-Hub-Signature-256"

#: Meta's requests have three megabytes at most. Larger ones are refused.
MAX_BODY: Final = 3 * 1024**2
_MAX_CHALLENGE: Final = 256


class WebhookServer(Webhook):
    """Listens from `start` to `stop`."""

    def __init__(self, settings: WhatsAppSettings, take: Take) -> None:
        self._secret = settings.app_secret.encode()
        self._verify_token = settings.verify_token.encode()
        where = settings.webhook
        super().__init__(
            ListenAddress("platforms.whatsapp.webhook", where.host, where.port, where.path),
            take,
            self._proof,
            refusal=401,
            max_body=MAX_BODY,
            more=[Route(where.path, self._verify, methods=["GET"])],
        )

    async def _verify(self, request: Request) -> Response:
        """Answer Meta's challenge, which verifies the URL."""
        asked = request.query_params
        given = asked.get("hub.verify_token", "").encode("utf-8", "surrogateescape")
        challenge = asked.get("hub.challenge", "")
        is_right = hmac.compare_digest(given, self._verify_token)
        if not is_right or asked.get("hub.mode") != "subscribe" or len(challenge) > _MAX_CHALLENGE:
            return Response(status_code=403)
        return PlainTextResponse(challenge, headers={"X-Content-Type-Options": "nosniff"})

    def _proof(self, request: Request) -> Proof | None:
        given = request.headers.get(SIGNATURE_HEADER)
        return Signature(given, self._secret, mark="sha256=") if given else None
