"""Telegram's adapter, made of its section in the configuration."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.agent.command_table import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.telegram.adapter import TelegramAdapter
from hermes_sessions.gateway.platforms.telegram.settings import TelegramSettings


def make_adapter(settings: PlatformSettings, _home: Path) -> TelegramAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing or not allowed.
    """
    commands = [(command.name, command.summary) for command in commands_for("gateway")]
    return TelegramAdapter(TelegramSettings.read(settings.token, settings.extra), commands=commands)
