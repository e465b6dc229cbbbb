"""Matrix: settings, adapter and set-up."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.agent.slash_commands import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.matrix.adapter import MatrixAdapter
from hermes_sessions.gateway.platforms.matrix.client import MatrixClient
from hermes_sessions.gateway.platforms.matrix.device_folder import DeviceFolder
from hermes_sessions.gateway.platforms.matrix.settings import MatrixSettings
from hermes_sessions.gateway.platforms.spec import PlatformSpec, SetupResult

#: In the gateway's directory.
FOLDER_NAME: Final = "matrix"


def make_adapter(own: MatrixSettings, _section: PlatformSettings, home: Path) -> MatrixAdapter:
    """Return an adapter, not yet connected."""
    return MatrixAdapter(
        own,
        device_folder=DeviceFolder(home / FOLDER_NAME),
        commands=frozenset(command.name for command in commands_for("gateway")),
    )


def validate(own: MatrixSettings, _section: PlatformSettings) -> None:
    """Check that the account can log in.

    Raises:
        ConfigError: there is neither a token nor a user with a password.
    """
    if not own.token and not (own.user and own.password):
        raise ConfigError(
            "platforms.matrix needs a token, or user and password of the account: see "
            "docs/matrix.md."
        )


async def check(own: MatrixSettings, home: Path) -> SetupResult:
    """Return the account. With a password, a session is started and ended again."""
    client = MatrixClient(own, DeviceFolder(home / FOLDER_NAME))
    try:
        identity = await client.try_login()
    finally:
        await client.close()
    notes = ["Invite it to a room, or start a private chat with it."]
    if identity.device_id is None:
        notes.append("The token has no device: it cannot read encrypted rooms.")
    return SetupResult(identity.user_id, tuple(notes))


SPEC: Final = PlatformSpec(
    name="matrix",
    title="Matrix",
    settings=MatrixSettings,
    make_adapter=make_adapter,
    check=check,
    validate=validate,
    before_setup="Create an account for the bot on a homeserver; do not use your own.",
    user_id_help="Whole ids, like @anna:example.org.",
    home_channel_help="The id of a room, which begins with !: in its settings, under Advanced.",
)
