"""Telegram: settings, adapter and set-up."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.agent.slash_commands import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.spec import PlatformSpec, SetupResult
from hermes_sessions.gateway.platforms.telegram.adapter import TelegramAdapter
from hermes_sessions.gateway.platforms.telegram.client import BotClient
from hermes_sessions.gateway.platforms.telegram.settings import TelegramSettings


def make_adapter(own: TelegramSettings, _section: PlatformSettings, _home: Path) -> TelegramAdapter:
    """Return an adapter that offers the commands of the gateway in Telegram's menu."""
    commands = [(command.name, command.summary) for command in commands_for("gateway")]
    return TelegramAdapter(own, commands=commands)


async def check(own: TelegramSettings, _home: Path) -> SetupResult:
    """Log in, and return the bot's name."""
    client = BotClient(own)
    try:
        identity = await client.start()
    finally:
        await client.close()
    return SetupResult(f"@{identity.name}", (f"Write to it: https://t.me/{identity.name}",))


SPEC: Final = PlatformSpec(
    name="telegram",
    title="Telegram",
    settings=TelegramSettings,
    make_adapter=make_adapter,
    check=check,
    before_setup="In Telegram, send /newbot to @BotFather. It gives you a token.",
    user_id_help="A number, like 123456789: @userinfobot tells you yours.",
    home_channel_help="Your own number for your private chat; a group's begins with -100.",
)
