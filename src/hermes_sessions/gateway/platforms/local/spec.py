"""The local socket: settings, adapter and set-up."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.local.adapter import LocalAdapter
from hermes_sessions.gateway.platforms.local.settings import LocalSettings, require_short_path
from hermes_sessions.gateway.platforms.spec import PlatformSpec, SetupResult


def make_adapter(own: LocalSettings, _section: PlatformSettings, _home: Path) -> LocalAdapter:
    """Return an adapter, not yet listening."""
    return LocalAdapter(own)


def validate(own: LocalSettings, _section: PlatformSettings) -> None:
    """Check the length of the path.

    Raises:
        ConfigError: it is too long for a socket.
    """
    require_short_path(own.socket)


async def check(own: LocalSettings, _home: Path) -> SetupResult:
    """Return where the socket will be."""
    return SetupResult(
        f"the socket {own.socket}",
        ("Only you can open it. While the gateway runs: hermes gateway chat",),
    )


SPEC: Final = PlatformSpec(
    name="local",
    title="the local socket",
    settings=LocalSettings,
    make_adapter=make_adapter,
    check=check,
    validate=validate,
    before_setup=(
        "Lets programs on this machine talk to the agent, including `hermes gateway chat`."
    ),
)
