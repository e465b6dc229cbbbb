"""How Telegram is set up: the token that BotFather gives."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.agent.command_table import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.spec import Question, Setup, SetupResult
from hermes_sessions.gateway.platforms.telegram.adapter import TelegramAdapter
from hermes_sessions.gateway.platforms.telegram.client import BotClient
from hermes_sessions.gateway.platforms.telegram.settings import TelegramSettings

# Telegram's adapter, made of its section in the configuration.


def make_adapter(settings: PlatformSettings, _home: Path) -> TelegramAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing or not allowed.
    """
    commands = [(command.name, command.summary) for command in commands_for("gateway")]
    return TelegramAdapter(TelegramSettings.read(settings.token, settings.extra), commands=commands)


def read(settings: PlatformSettings, _home: Path) -> TelegramSettings:
    """Return what is configured.

    Raises:
        ConfigError: it cannot be right.
    """
    return TelegramSettings.read(settings.token, settings.extra)


async def check(settings: PlatformSettings, _home: Path) -> SetupResult:
    """Log in, and return who the bot is.

    Raises:
        ConfigError, LoginRefused, Unreachable
    """
    client = BotClient(read(settings, _home))
    try:
        identity = await client.start()
    finally:
        await client.close()
    return SetupResult(f"@{identity.name}", (f"Write to it: https://t.me/{identity.name}",))


SETUP: Final = Setup(
    title="Telegram",
    before="In Telegram, write /newbot to @BotFather. It gives you a token.",
    questions=(
        Question(
            "token",
            "Bot token",
            "From @BotFather, as 123456789:AA… (/mybots shows it again).",
            variable="TELEGRAM_BOT_TOKEN",
        ),
    ),
    read=read,
    check=check,
    people="A number, as 123456789: @userinfobot tells you yours.",
    home="Your own number for your private chat; a group's begins with -100.",
)
