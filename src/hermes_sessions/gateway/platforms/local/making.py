"""The adapter of ``platforms.local``."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.local.adapter import LocalAdapter
from hermes_sessions.gateway.platforms.local.settings import LocalSettings


def make_adapter(settings: PlatformSettings, home: Path) -> LocalAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is misspelt or not allowed.
    """
    return LocalAdapter(LocalSettings.read(settings.extra, home))
