"""Discord's adapter, made of its section in the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.agent.command_table import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.discord.adapter import DiscordAdapter
from hermes_sessions.gateway.platforms.discord.identifiers import is_snowflake
from hermes_sessions.gateway.platforms.discord.settings import DiscordSettings

#: Discord stops bots that open private chats with a great many people.
MOST_PEOPLE: Final = 20


def make_adapter(settings: PlatformSettings, _home: Path) -> DiscordAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing or not allowed.
    """
    commands = frozenset(command.name for command in commands_for("gateway"))
    return DiscordAdapter(
        DiscordSettings.read(settings.token, settings.extra),
        commands=commands,
        needs_roles=bool(settings.allowed_roles),
        people=[user for user in settings.allowed_users if is_snowflake(user)][:MOST_PEOPLE],
    )
