"""Matrix's adapter, made of its section in the configuration."""

from __future__ import annotations

from pathlib import Path

from hermes_sessions.agent.command_table import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.matrix.adapter import MatrixAdapter
from hermes_sessions.gateway.platforms.matrix.device_folder import Keeping
from hermes_sessions.gateway.platforms.matrix.settings import MatrixSettings

#: In the gateway's directory.
FOLDER_NAME = "matrix"


def make_adapter(settings: PlatformSettings, home: Path) -> MatrixAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing or not allowed.
    """
    own = MatrixSettings.read(settings.token, settings.extra)
    return MatrixAdapter(
        own,
        keeping=Keeping(home / FOLDER_NAME),
        commands=frozenset(command.name for command in commands_for("gateway")),
    )
