"""Slack's adapter, made of its section in the configuration."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.agent.command_table import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.slack.adapter import SlackAdapter
from hermes_sessions.gateway.platforms.slack.settings import SlackSettings, check_ids


def make_adapter(settings: PlatformSettings, _home: Path) -> SlackAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing or not allowed.
    """
    check_ids(settings.allowed_users, settings.allowed_chats)
    names = [
        name for command in commands_for("gateway") for name in (command.name, *command.aliases)
    ]
    return SlackAdapter(SlackSettings.read(settings.token, settings.extra), commands=names)
