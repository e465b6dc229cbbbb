"""How Telegram is set up: the token that BotFather gives."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.spec import Found, Question, Setup
from hermes_sessions.gateway.platforms.telegram.client import BotClient
from hermes_sessions.gateway.platforms.telegram.settings import TelegramSettings


def read(settings: PlatformSettings, _home: Path) -> TelegramSettings:
    """Return what is configured.

    Raises:
        ConfigError: it cannot be right.
    """
    return TelegramSettings.read(settings.token, settings.extra)


async def check(settings: PlatformSettings, _home: Path) -> Found:
    """Log in, and return who the bot is.

    Raises:
        ConfigError, LoginRefused, Unreachable
    """
    client = BotClient(read(settings, _home))
    try:
        identity = await client.start()
    finally:
        await client.close()
    return Found(f"@{identity.name}", (f"Write to it: https://t.me/{identity.name}",))


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
