"""The adapter of ``platforms.api``."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.api.adapter import ApiAdapter
from hermes_sessions.gateway.platforms.api.settings import ApiSettings


def make_adapter(settings: PlatformSettings, _home: Path) -> ApiAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing, misspelt or not allowed.
    """
    return ApiAdapter(ApiSettings.read(settings.token, settings.extra))
