"""How Discord is set up: the bot's token, and the intent without which it hears nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from hermes_sessions.agent.command_table import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.discord.adapter import DiscordAdapter
from hermes_sessions.gateway.platforms.discord.client import RestClient
from hermes_sessions.gateway.platforms.discord.errors import PORTAL
from hermes_sessions.gateway.platforms.discord.identifiers import is_snowflake
from hermes_sessions.gateway.platforms.discord.settings import DiscordSettings
from hermes_sessions.gateway.platforms.discord.websocket import WebSocketConnection
from hermes_sessions.gateway.platforms.spec import Question, Setup, SetupResult

# Discord's adapter, made of its section in the configuration.

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


#: What docs/discord.md lists.
_PERMISSIONS: Final = 274877975552


def read(settings: PlatformSettings, _home: Path) -> DiscordSettings:
    """Return what is configured.

    Raises:
        ConfigError: it cannot be right.
    """
    return DiscordSettings.read(settings.token, settings.extra)


async def check(settings: PlatformSettings, _home: Path) -> SetupResult:
    """Log in and connect once, which Discord refuses without the intent; return who the bot is.

    Raises:
        ConfigError, LoginRefused, Unreachable
    """
    client = RestClient(read(settings, _home))
    try:
        identity = await client.login()
        await _connect(client)
    finally:
        await client.close()
    # An application and its bot have one id, but for some of the oldest.
    invite = (
        f"https://discord.com/oauth2/authorize?client_id={identity.id}&scope=bot"
        f"&permissions={_PERMISSIONS}"
    )
    return SetupResult(identity.name, (f"Invite it to a server of yours: {invite}",))


async def _connect(client: RestClient) -> None:
    connection = WebSocketConnection(client, {}, unreadable=lambda _why: None, sleep=asyncio.sleep)
    running = asyncio.create_task(connection.run())
    ready = asyncio.create_task(connection.is_ready.wait())
    try:
        await asyncio.wait((running, ready), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (running, ready):
            task.cancel()
        await asyncio.gather(running, ready, return_exceptions=True)


SETUP: Final = Setup(
    title="Discord",
    before=(
        f"At {PORTAL}: New Application; then, under Bot, turn on Message Content Intent and press "
        f"Reset Token."
    ),
    questions=(
        Question(
            "token",
            "Bot token",
            "Under Bot, Reset Token shows it once: three parts with dots between them.",
            variable="DISCORD_BOT_TOKEN",
        ),
    ),
    read=read,
    check=check,
    people=(
        "Long numbers: with Settings > Advanced > Developer Mode on, right-click a name > Copy "
        "User ID."
    ),
    home="The id of a channel: right-click it > Copy Channel ID.",
)
