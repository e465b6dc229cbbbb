"""The webhook for Slack's events and commands.

A request is genuine if it is signed with the app's signing secret and at most five minutes old,
which prevents replays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from hermes_sessions.gateway.platforms.slack.errors import NotAccepted, Take
from hermes_sessions.gateway.platforms.slack.settings import SlackSettings
from hermes_sessions.gateway.platforms.webhooks import (
    ListenAddress,
    Proof,
    Signature,
    Webhook,
    parsed_json,
)

SIGNATURE_HEADER: Final = "X-Slack-Signature"
TIMESTAMP_HEADER: Final = "X-Slack-Request-Timestamp"

#: Slack's requests have some kilobytes. Larger ones are refused.
MAX_BODY: Final = 1024**2
_MAX_CHALLENGE: Final = 1024
_MAX_AGE_SECONDS: Final = 300
_MAX_DIGITS: Final = 16
_FORM: Final = "application/x-www-form-urlencoded"


class WebhookServer(Webhook):
    """Listens from `start` to `stop`."""

    def __init__(self, settings: SlackSettings, take: Take, *, clock: Callable[[], float]) -> None:
        """*clock* returns seconds since the epoch."""
        self._secret = (settings.signing_secret or "").encode()
        self._clock = clock
        where = settings.webhook
        super().__init__(
            ListenAddress("platforms.slack.webhook", where.host, where.port, where.path),
            _confirmed(take),
            self._proof,
            refusal=401,
            max_body=MAX_BODY,
        )

    def _proof(self, request: Request) -> Proof | None:
        given = request.headers.get(SIGNATURE_HEADER)
        said = request.headers.get(TIMESTAMP_HEADER, "")
        if not given or not (said.isascii() and said.isdigit()) or len(said) > _MAX_DIGITS:
            return None
        if abs(self._clock() - int(said)) > _MAX_AGE_SECONDS:
            return None
        return Signature(given, self._secret, mark="v0=", before=f"v0:{said}:".encode())

    def _parsed(self, request: Request, body: bytes) -> object:
        """Return the payload in a body, JSON or a form; None if it is neither."""
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != _FORM:
            return parsed_json(body)
        try:
            return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100))
        except ValueError:
            return None

    async def _answer(self, payload: object) -> Response:
        if isinstance(payload, Mapping) and payload.get("type") == "url_verification":
            return _challenge(payload)
        return await super()._answer(payload)


def _confirmed(take: Take) -> Callable[[object], Awaitable[bool]]:
    async def is_taken(payload: object) -> bool:
        try:
            await take(payload)
        except NotAccepted:
            return False
        return True

    return is_taken


def _challenge(payload: Mapping[str, object]) -> Response:
    """Answer Slack's challenge, which verifies the URL."""
    challenge = payload.get("challenge")
    if not isinstance(challenge, str) or len(challenge) > _MAX_CHALLENGE:
        return Response(status_code=400)
    return PlainTextResponse(challenge, headers={"X-Content-Type-Options": "nosniff"})
