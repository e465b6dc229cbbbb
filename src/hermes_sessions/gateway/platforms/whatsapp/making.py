"""WhatsApp's adapter, made of its section in the configuration."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.whatsapp.adapter import WhatsAppAdapter
from hermes_sessions.gateway.platforms.whatsapp.settings import (
    WhatsAppSettings,
    check_allowed_users,
)


def make_adapter(settings: PlatformSettings, _home: Path) -> WhatsAppAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing or not allowed.
    """
    check_allowed_users(settings.allowed_users)
    return WhatsAppAdapter(WhatsAppSettings.read(settings.token, settings.extra))
