"""Signal's adapter, made of its section in the configuration."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.signal.adapter import SignalAdapter
from hermes_sessions.gateway.platforms.signal.journal import Journal
from hermes_sessions.gateway.platforms.signal.settings import SignalSettings

JOURNAL_NAME = "signal-received.jsonl"


def make_adapter(settings: PlatformSettings, home: Path) -> SignalAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing or not allowed.
    """
    return SignalAdapter(
        SignalSettings.read(settings.extra, home), journal=Journal(home / JOURNAL_NAME)
    )
