"""How the local socket is set up: nothing is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.local.adapter import LocalAdapter
from hermes_sessions.gateway.platforms.local.settings import LocalSettings
from hermes_sessions.gateway.platforms.spec import Setup, SetupResult

# The adapter of ``platforms.local``.


def make_adapter(settings: PlatformSettings, home: Path) -> LocalAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is misspelt or not allowed.
    """
    return LocalAdapter(LocalSettings.read(settings.extra, home))


def read(settings: PlatformSettings, home: Path) -> LocalSettings:
    """Return what is configured.

    Raises:
        ConfigError: it cannot be right.
    """
    return LocalSettings.read(settings.extra, home)


async def check(settings: PlatformSettings, home: Path) -> SetupResult:
    """Return where the socket will be.

    Raises:
        ConfigError: it cannot be there.
    """
    own = read(settings, home)
    return SetupResult(
        f"the socket {own.socket}",
        ("Only you can open it. While the gateway runs: hermes gateway chat",),
    )


SETUP: Final = Setup(
    title="the local socket",
    before="Lets programs of this machine talk to the agent, and `hermes gateway chat`.",
    questions=(),
    read=read,
    check=check,
)
