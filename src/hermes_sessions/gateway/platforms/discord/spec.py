"""Discord: settings, adapter and set-up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from hermes_sessions.agent.slash_commands import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.discord.adapter import DiscordAdapter
from hermes_sessions.gateway.platforms.discord.client import RestClient
from hermes_sessions.gateway.platforms.discord.errors import PORTAL
from hermes_sessions.gateway.platforms.discord.identifiers import is_snowflake
from hermes_sessions.gateway.platforms.discord.settings import DiscordSettings
from hermes_sessions.gateway.platforms.discord.websocket import WebSocketConnection
from hermes_sessions.gateway.platforms.spec import PlatformSpec, SetupResult

#: Discord stops bots that open private chats with a large number of people.
MOST_PEOPLE: Final = 20
#: The permissions that docs/discord.md lists.
_PERMISSIONS: Final = 274877975552


def make_adapter(own: DiscordSettings, section: PlatformSettings, _home: Path) -> DiscordAdapter:
    """Return an adapter, not yet connected."""
    return DiscordAdapter(
        own,
        commands=frozenset(command.name for command in commands_for("gateway")),
        needs_roles=bool(section.allowed_roles),
        people=[user for user in section.allowed_users if is_snowflake(user)][:MOST_PEOPLE],
    )


async def check(own: DiscordSettings, _home: Path) -> SetupResult:
    """Log in and connect once, which Discord refuses without the intent; return the bot's name."""
    client = RestClient(own)
    try:
        identity = await client.login()
        await _connect(client)
    finally:
        await client.close()
    # An application and its bot have the same id, except for some of the oldest.
    invite = (
        f"https://discord.com/oauth2/authorize?client_id={identity.id}&scope=bot"
        f"&permissions={_PERMISSIONS}"
    )
    return SetupResult(identity.name, (f"Invite it to one of your servers: {invite}",))


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


SPEC: Final = PlatformSpec(
    name="discord",
    title="Discord",
    settings=DiscordSettings,
    make_adapter=make_adapter,
    check=check,
    before_setup=(
        f"At {PORTAL}: New Application; then, under Bot, turn on Message Content Intent and press "
        f"Reset Token."
    ),
    user_id_help=(
        "Long numbers: with Settings > Advanced > Developer Mode on, right-click a name > Copy "
        "User ID."
    ),
    home_channel_help="The id of a channel: right-click it > Copy Channel ID.",
)
