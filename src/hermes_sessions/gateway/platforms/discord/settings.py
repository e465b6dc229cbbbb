"""``platforms.discord``: the keys that only Discord has."""

from __future__ import annotations

from typing import Final

from hermes_sessions.config.key_types import (
    REQUIRED,
    NotAllowed,
    ParseContext,
    TextList,
    WholeNumber,
    YesNo,
)
from hermes_sessions.config.sections import SettingsSection, setting
from hermes_sessions.gateway.platforms.discord.identifiers import is_snowflake
from hermes_sessions.gateway.platforms.settings import Pattern, WebAddress, max_file_bytes
from hermes_sessions.gateway.platforms.spec import Ask

PUBLIC_API: Final = "https://discord.com"


class _ChannelIds(TextList):
    """Ids of channels, as a set."""

    allowed = (
        "a list of channel ids, like [1234567890123456789]; with Developer Mode on, Copy Channel "
        "ID is in the menu of a channel"
    )

    def parse(self, text: str, context: ParseContext) -> frozenset[str]:  # type: ignore[override]
        """Return the ids, or raise NotAllowed."""
        ids = super().parse(text, context)
        if not all(is_snowflake(each) for each in ids):
            raise NotAllowed
        return frozenset(ids)

    def show(self, value: object) -> str:
        """Return them with commas between them."""
        return ", ".join(sorted(value)) if isinstance(value, frozenset) else str(value)


class DiscordSettings(SettingsSection, shared=True):
    """How the bot connects, and what it accepts."""

    token: str = setting(
        REQUIRED,
        kind=Pattern(
            r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{20,}",
            "a bot token: three parts with dots between them, without the word Bot. It is neither "
            "the public key nor the client secret. In the developer portal, Bot > Reset Token "
            "shows a new one",
        ),
        doc="The bot token from the developer portal, best as `${VAR}`.",
        ask=Ask(
            name="Bot token",
            help="Under Bot, Reset Token shows it once: three parts with dots between them.",
            variable="DISCORD_BOT_TOKEN",
        ),
    )
    base_url: str = setting(PUBLIC_API, kind=WebAddress(), doc="Discord's server, for tests.")
    require_mention: bool = setting(
        True,
        kind=YesNo(),
        doc="On servers, the bot answers only mentions, replies to it and commands.",
    )
    free_response_channels: frozenset[str] = setting(
        frozenset(),
        kind=_ChannelIds(),
        doc="Ids of channels (with their threads) or threads where it answers every message.",
    )
    max_file_bytes: int = max_file_bytes(at_most=500 * 1024**2)
    catch_up_hours: int = setting(
        24,
        kind=WholeNumber(at_least=0, at_most=24 * 14),
        doc="The maximum age of messages that are fetched after an outage; 0 fetches none.",
    )
