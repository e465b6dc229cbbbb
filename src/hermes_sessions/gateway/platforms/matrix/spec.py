"""How Matrix is set up: the homeserver, and an account there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.agent.command_table import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.matrix.adapter import MatrixAdapter
from hermes_sessions.gateway.platforms.matrix.client import MatrixClient
from hermes_sessions.gateway.platforms.matrix.device_folder import DeviceFolder
from hermes_sessions.gateway.platforms.matrix.settings import MatrixSettings
from hermes_sessions.gateway.platforms.spec import Answers, Question, Setup, SetupResult

# Matrix's adapter, made of its section in the configuration.

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
        device_folder=DeviceFolder(home / FOLDER_NAME),
        commands=frozenset(command.name for command in commands_for("gateway")),
    )


def read(settings: PlatformSettings, _home: Path) -> MatrixSettings:
    """Return what is configured.

    Raises:
        ConfigError: it cannot be right.
    """
    return MatrixSettings.read(settings.token, settings.extra)


async def check(settings: PlatformSettings, home: Path) -> SetupResult:
    """Return whose account it is. With a password, a session is begun and ended again.

    Raises:
        ConfigError, LoginRefused, Unreachable, RateLimited
    """
    own = read(settings, home)
    client = MatrixClient(own, DeviceFolder(home / FOLDER_NAME))
    try:
        identity = await client.try_login()
    finally:
        await client.close()
    notes = ["Invite it to a room, or begin a private chat with it."]
    if identity.device_id is None:
        notes.append("The token belongs to no device: encrypted rooms cannot be read with it.")
    return SetupResult(identity.user_id, tuple(notes))


def _has_no_token(answers: Answers) -> bool:
    return not answers.get("token")


SETUP: Final = Setup(
    title="Matrix",
    before="Make an account for the bot on a homeserver: it must be its own, not yours.",
    questions=(
        Question(
            "homeserver",
            "Homeserver",
            "Where its API answers, as https://matrix.example.org.",
        ),
        Question(
            "token",
            "Access token",
            "Made for the gateway alone, not copied from an app. Nothing: by password.",
            variable="MATRIX_TOKEN",
            is_optional=True,
            is_asked=lambda answers: not answers.get("password"),
        ),
        Question("user", "User", "The whole id, as @hermes:example.org.", is_asked=_has_no_token),
        Question(
            "password",
            "Password",
            "Used once, at the first start.",
            variable="MATRIX_PASSWORD",
            is_asked=_has_no_token,
        ),
    ),
    read=read,
    check=check,
    people="Whole ids, as @anna:example.org.",
    home="The id of a room, which begins with !: in its settings, under Advanced.",
)
