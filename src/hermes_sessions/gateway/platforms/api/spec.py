"""The HTTP API: settings, adapter and set-up."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.api.adapter import ApiAdapter
from hermes_sessions.gateway.platforms.api.settings import ApiSettings
from hermes_sessions.gateway.platforms.spec import PlatformSpec, SetupResult

_OPEN: Final = (
    "Other machines can reach it, and it speaks plain HTTP: put a TLS reverse proxy in front of it."
)


def make_adapter(own: ApiSettings, _section: PlatformSettings, _home: Path) -> ApiAdapter:
    """Return an adapter, not yet listening."""
    return ApiAdapter(own)


async def check(own: ApiSettings, _home: Path) -> SetupResult:
    """Listen on the address for a moment.

    Raises:
        ConfigError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in own.host else socket.AF_INET
    try:
        socket.create_server((own.host, own.port), family=family).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"platforms.api: cannot listen on {own.host} port {own.port}: {error}. Choose another "
            f"port; or, if a gateway of yours listens there already, use --no-check."
        ) from error
    notes = () if own.host in {"127.0.0.1", "::1", "localhost"} else (_OPEN,)
    return SetupResult(f"http://{own.host}:{own.port}", notes)


SPEC: Final = PlatformSpec(
    name="api",
    title="the HTTP API",
    settings=ApiSettings,
    make_adapter=make_adapter,
    check=check,
    before_setup="A client with the token can send and read every message of this API.",
)
