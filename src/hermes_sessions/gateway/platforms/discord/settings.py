"""``platforms.discord``: the keys that only Discord has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hermes_sessions.config.key_types import Kind, Size, Text, WholeNumber, YesNo
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.discord.identifiers import is_snowflake
from hermes_sessions.gateway.platforms.settings import read_own_keys, web_address

PUBLIC_API: Final = "https://discord.com"

_SECTION: Final = "platforms.discord"
_KEYS: Final[Mapping[str, Kind]] = {
    "base_url": Text(),
    "require_mention": YesNo(),
    "max_file_bytes": Size(at_least=1, at_most=500 * 1024**2),
    "catch_up_hours": WholeNumber(at_least=0, at_most=24 * 14),
}
_FREE: Final = "free_response_channels"
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{20,}")


@dataclass(frozen=True, slots=True)
class DiscordSettings:
    """How the bot is connected, and what it takes."""

    token: str = field(repr=False)
    #: Discord's server.
    base_url: str = PUBLIC_API
    #: On servers, only commands, mentions of the bot and answers to it are for the bot.
    require_mention: bool = True
    #: Channels in which everything is for the bot, with their threads; or threads.
    free_response_channels: frozenset[str] = frozenset()
    #: Larger files are left out, and the agent is told.
    max_file_bytes: int = 20 * 1024**2
    #: How far back messages are fetched that nobody received; 0: none are.
    catch_up_hours: int = 24

    @classmethod
    def read(cls, token: str | None, values: Mapping[str, object]) -> DiscordSettings:
        """Return the settings, validated; *values* are the platform's keys besides the token.

        Other programs may keep keys of their own there: an unknown one is refused only when it
        looks like a misspelt one of ours.

        Raises:
            ConfigError: something is missing, misspelt or not allowed.
        """
        if not token:
            raise ConfigError(
                f"{_SECTION}.token is missing. The developer portal gives you one, under Bot, with "
                f"Reset Token: see docs/discord.md."
            )
        if not _TOKEN.fullmatch(token):
            raise ConfigError(
                f"{_SECTION}.token is not a token of a bot: it is three parts with dots between "
                f"them, without the word Bot. It is neither the public key nor the client secret. "
                f"Under Bot in the developer portal, Reset Token shows a new one."
            )
        known = read_own_keys(_SECTION, _KEYS, values, others=[_FREE])
        if "base_url" in known:
            known["base_url"] = web_address(f"{_SECTION}.base_url", known["base_url"])
        return cls(token=token, free_response_channels=_channels(values.get(_FREE)), **known)


def _channels(value: object) -> frozenset[str]:
    if value is None:
        return frozenset()
    listed = value if isinstance(value, (tuple, list)) else str(value).split(",")
    ids = [str(each).strip() for each in listed]
    wrong = [each for each in ids if not is_snowflake(each)]
    if wrong:
        raise ConfigError(
            f"{_SECTION}.{_FREE} must be a list of ids of channels, like [1234567890123456789]. "
            f"With Developer Mode on, Copy Channel ID is in the menu of a channel."
        )
    return frozenset(ids)
