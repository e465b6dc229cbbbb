"""``platforms.api``: the keys that only the HTTP API has."""

from __future__ import annotations

import secrets

from hermes_sessions.config.key_types import REQUIRED, Seconds, Size, Text, WholeNumber
from hermes_sessions.config.sections import SettingsSection, setting
from hermes_sessions.gateway.platforms.settings import LOOPBACK, PORT, Pattern
from hermes_sessions.gateway.platforms.spec import Ask


class ApiSettings(SettingsSection):
    """Where the API listens, who may call it, and what it accepts."""

    token: str = setting(
        REQUIRED,
        kind=Pattern(
            r"[\x21-\x7e]{16,512}",
            "16–512 letters, digits or symbols, without spaces; `openssl rand -hex 32` makes one",
        ),
        doc="The token that every request must carry, best as `${VAR}`.",
        ask=Ask(
            name="Token",
            help="16–512 characters: letters, digits or symbols.",
            variable="HERMES_API_TOKEN",
            make=lambda: secrets.token_hex(32),
        ),
    )
    host: str = setting(
        LOOPBACK, kind=Text(), doc="The address to listen on.", ask=Ask(name="Host")
    )
    port: int = setting(8642, kind=PORT, doc="The port to listen on.", ask=Ask(name="Port"))
    max_body_bytes: int = setting(
        1024**2,
        kind=Size(at_least=1024, at_most=1024**3),
        doc="Larger requests are refused with 413.",
    )
    body_seconds: float = setting(
        30.0,
        kind=Seconds(at_most=3600),
        doc="How long a client may take to send the body of a request.",
    )
    head_seconds: float = setting(
        10.0,
        kind=Seconds(at_most=3600),
        doc="How long a client may take to send the head of a request.",
    )
    reply_seconds: float = setting(
        1800.0,
        kind=Seconds(at_most=86_400),
        doc="How long a request waits for the reply; the agent answers even after that.",
    )
    max_connections: int = setting(
        1_000,
        kind=WholeNumber(at_least=2, at_most=100_000),
        doc=(
            "Requests beyond this number get 503, except `/healthz` and `/readyz`; idle "
            "connections are closed first."
        ),
    )
