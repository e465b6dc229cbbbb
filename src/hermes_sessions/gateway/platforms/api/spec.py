"""How the HTTP API is set up: a token, and a port that is free."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Final

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.api.adapter import ApiAdapter
from hermes_sessions.gateway.platforms.api.settings import ApiSettings
from hermes_sessions.gateway.platforms.spec import Question, Setup, SetupResult

# The adapter of ``platforms.api``.


def make_adapter(settings: PlatformSettings, _home: Path) -> ApiAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing, misspelt or not allowed.
    """
    return ApiAdapter(ApiSettings.read(settings.token, settings.extra))


def read(settings: PlatformSettings, _home: Path) -> ApiSettings:
    """Return what is configured.

    Raises:
        ConfigError: it cannot be right.
    """
    return ApiSettings.read(settings.token, settings.extra)


async def check(settings: PlatformSettings, _home: Path) -> SetupResult:
    """See whether somebody can listen there, and stop again.

    Raises:
        ConfigError: the token cannot be one, or the address cannot be used.
    """
    own = read(settings, _home)
    family = socket.AF_INET6 if ":" in own.host else socket.AF_INET
    try:
        socket.create_server((own.host, own.port), family=family).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"platforms.api: cannot listen on {own.host} port {own.port}: {error}. Choose another "
            f"port; or, if a gateway of yours listens there already, use --no-check."
        ) from error
    notes = [] if own.host in {"127.0.0.1", "::1", "localhost"} else [_OPEN]
    return SetupResult(f"http://{own.host}:{own.port}", tuple(notes))


_OPEN: Final = (
    "Other machines can reach it, and it speaks plain HTTP: put a proxy that speaks TLS before it."
)

SETUP: Final = Setup(
    title="the HTTP API",
    before="Whoever has the token may say and read everything that goes through this API.",
    questions=(
        Question(
            "token",
            "Token",
            "16 to 512 letters, digits or signs of your choice.",
            variable="HERMES_API_TOKEN",
            make=lambda: secrets.token_hex(32),
        ),
        Question("host", "Host", "The address to listen on.", default="127.0.0.1"),
        Question("port", "Port", "The port to listen on.", default="8642"),
    ),
    read=read,
    check=check,
)
