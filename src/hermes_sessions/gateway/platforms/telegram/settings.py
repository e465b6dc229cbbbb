"""``platforms.telegram``: the keys that only Telegram has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from hermes_sessions.config.key_types import Kind, Size, Text, WholeNumber, YesNo
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.settings import read_own_keys, read_section, web_address

PUBLIC_API: Final = "https://api.telegram.org"

_SECTION: Final = "platforms.telegram"
_KEYS: Final[Mapping[str, Kind]] = {
    "base_url": Text(),
    "require_mention": YesNo(),
    "max_file_bytes": Size(at_least=1, at_most=2 * 1024**3),
    "poll_seconds": WholeNumber(at_least=1, at_most=50),
    "album_milliseconds": WholeNumber(at_least=0, at_most=10_000),
}
_WEBHOOK_KEYS: Final[Mapping[str, Kind]] = {
    "url": Text(),
    "secret": Text(),
    "host": Text(),
    "port": WholeNumber(at_least=0, at_most=65535),
}
_TOKEN: Final = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}")
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{16,256}")


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """``platforms.telegram.webhook``: Telegram calls us, instead of being asked."""

    #: Where Telegram reaches us; its path is the one we listen to.
    url: str
    #: What every call must carry.
    secret: str = field(repr=False)
    #: Where we listen: behind a proxy that speaks TLS.
    host: str = "127.0.0.1"
    port: int = 8443

    @property
    def path(self) -> str:
        """The path of the URL."""
        return urlsplit(self.url).path or "/"


@dataclass(frozen=True, slots=True)
class TelegramSettings:
    """How the bot is connected, and what it takes."""

    token: str = field(repr=False)
    #: The Bot API's server.
    base_url: str = PUBLIC_API
    #: In groups, only commands, mentions and answers to the bot are for the bot.
    require_mention: bool = True
    #: Larger files are left out, and the agent is told.
    max_file_bytes: int = 20 * 1024**2
    #: How long Telegram holds a question for updates open.
    poll_seconds: int = 50
    #: How long the rest of an album is waited for.
    album_milliseconds: int = 500
    webhook: WebhookSettings | None = None

    @classmethod
    def read(cls, token: str | None, values: Mapping[str, object]) -> TelegramSettings:
        """Return the settings, validated; *values* are the platform's keys besides the token.

        Other programs may keep keys of their own there: an unknown one is refused only when it
        looks like a misspelt one of ours.

        Raises:
            ConfigError: something is missing, misspelt or not allowed.
        """
        if not token:
            raise ConfigError(
                f"{_SECTION}.token is missing. BotFather gives you one: see docs/telegram.md."
            )
        if not _TOKEN.fullmatch(token):
            raise ConfigError(
                f"{_SECTION}.token is not a token of a bot: it looks like 123456789:AA…, digits, a "
                f"colon and 35 characters. Copy it again from BotFather."
            )
        known = read_own_keys(_SECTION, _KEYS, values, others=["webhook"])
        base_url = known.get("base_url")
        if base_url is not None:
            known["base_url"] = web_address(f"{_SECTION}.base_url", base_url)
        webhook = values.get("webhook")
        return cls(token=token, webhook=_webhook(webhook) if webhook else None, **known)


def _webhook(section: object) -> WebhookSettings:
    where = f"{_SECTION}.webhook"
    values = read_section(where, _WEBHOOK_KEYS, section)
    if not values.get("url"):
        raise ConfigError(f"{where}.url is missing: the https address at which Telegram calls us.")
    values["url"] = web_address(f"{where}.url", values["url"])
    if not values.get("secret") or not _SECRET.fullmatch(values["secret"]):
        raise ConfigError(
            f"{where}.secret must be 16 to 256 letters, digits, - or _, so that nobody else can "
            f"pretend to be Telegram. `openssl rand -hex 32` makes one."
        )
    return WebhookSettings(**values)
