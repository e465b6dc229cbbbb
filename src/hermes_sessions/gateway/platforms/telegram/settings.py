"""``platforms.telegram``: the keys that only Telegram has."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from hermes_sessions.config.key_types import REQUIRED, Text, WholeNumber, YesNo
from hermes_sessions.config.sections import SettingsSection, optional_section, setting
from hermes_sessions.gateway.platforms.settings import (
    LOOPBACK,
    Pattern,
    WebAddress,
    max_file_bytes,
    webhook_port,
)
from hermes_sessions.gateway.platforms.spec import Ask

PUBLIC_API: Final = "https://api.telegram.org"


class TelegramWebhookSettings(SettingsSection):
    """``platforms.telegram.webhook``: Telegram calls us, instead of being polled."""

    url: str = setting(
        REQUIRED,
        kind=WebAddress(),
        doc="The public URL that Telegram calls; its path is the one the gateway serves.",
    )
    secret: str = setting(
        REQUIRED,
        kind=Pattern(
            r"[A-Za-z0-9_-]{16,256}",
            "16–256 letters, digits, - or _; `openssl rand -hex 32` makes one",
        ),
        doc="A secret that every call must carry, best as `${VAR}`.",
    )
    host: str = setting(LOOPBACK, kind=Text(), doc="The address on which the gateway listens.")
    port: int = webhook_port(8443)

    @property
    def path(self) -> str:
        """The path of the URL."""
        return urlsplit(self.url).path or "/"


class TelegramSettings(SettingsSection, shared=True):
    """How the bot connects, and what it accepts."""

    token: str = setting(
        REQUIRED,
        kind=Pattern(
            r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}",
            "a bot token from @BotFather: digits, a colon and 35 characters, like 123456789:AA…",
        ),
        doc="The bot token from @BotFather, best as `${VAR}`.",
        ask=Ask(
            name="Bot token",
            help="From @BotFather, like 123456789:AA… (/mybots shows it again).",
            variable="TELEGRAM_BOT_TOKEN",
        ),
    )
    base_url: str = setting(
        PUBLIC_API,
        kind=WebAddress(),
        doc=(
            "The Bot API; a [server of your own](https://github.com/tdlib/telegram-bot-api) has no "
            "limit of 20 MB."
        ),
    )
    require_mention: bool = setting(
        True,
        kind=YesNo(),
        doc="In groups, the bot answers only commands, mentions and replies to it.",
    )
    max_file_bytes: int = max_file_bytes(at_most=2 * 1024**3)
    poll_seconds: int = setting(
        50,
        kind=WholeNumber(at_least=1, at_most=50),
        doc="How long Telegram holds a poll for updates open.",
    )
    album_milliseconds: int = setting(
        500,
        kind=WholeNumber(at_least=0, at_most=10_000),
        doc="How long to wait for the rest of an album.",
    )
    webhook: TelegramWebhookSettings | None = optional_section(TelegramWebhookSettings)
