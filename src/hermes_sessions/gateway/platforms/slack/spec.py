"""Slack: settings, adapter and set-up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from hermes_sessions.agent.slash_commands import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.port import LoginRefused
from hermes_sessions.gateway.platforms.slack.adapter import NEEDED_SCOPE, SCOPES, SlackAdapter
from hermes_sessions.gateway.platforms.slack.client import BotIdentity, SlackClient
from hermes_sessions.gateway.platforms.slack.settings import SlackSettings
from hermes_sessions.gateway.platforms.spec import PlatformSpec, SetupResult

_USER: Final = re.compile(r"[UW][A-Z0-9]{2,30}")
_CHAT: Final = re.compile(r"[CDG][A-Z0-9]{2,30}")
_ENTER_URL: Final = "and enter its URL as Request URL under Event Subscriptions"
_SCOPES_HINT: Final = "under OAuth & Permissions, and install the app again"


def make_adapter(own: SlackSettings, _section: PlatformSettings, _home: Path) -> SlackAdapter:
    """Return an adapter, not yet connected."""
    names = [
        name for command in commands_for("gateway") for name in (command.name, *command.aliases)
    ]
    return SlackAdapter(own, commands=names)


def validate(own: SlackSettings, section: PlatformSettings) -> None:
    """Check that messages can come in exactly one way, and that ids are written as Slack does.

    Raises:
        ConfigError: one of them is wrong. A wrong id would silently never match.
    """
    if own.app_token and own.signing_secret:
        raise ConfigError(
            "platforms.slack: set app_token (Socket Mode) or signing_secret (Events API), not "
            "both: an app uses one of them."
        )
    if not own.app_token and not own.signing_secret:
        raise ConfigError(
            "platforms.slack cannot receive messages. Set app_token (xapp-…, for Socket Mode, "
            "which needs no public URL) or signing_secret (for the Events API). See docs/slack.md."
        )
    for user in section.allowed_users:
        if user != "*" and not _USER.fullmatch(user):
            raise ConfigError(
                f"platforms.slack.allowed_users: {user!r} is not a member ID. It looks like "
                f"U012ABCDEF: open the person's profile, then … > Copy member ID."
            )
    for chat in section.allowed_chats:
        if not _CHAT.fullmatch(chat):
            raise ConfigError(
                f"platforms.slack.allowed_chats: {chat!r} is not the ID of a channel. It looks "
                f"like C012ABCDEF: open the channel's details; it is at the bottom."
            )


async def check(own: SlackSettings, _home: Path) -> SetupResult:
    """Log in, with Socket Mode open a socket and close it; return the bot and its workspace."""
    client = SlackClient(own)
    try:
        identity = await client.identify()
        notes = _missing_scopes(identity)
        if own.app_token:
            await (await client.open_socket()).close()
        else:
            listening = f"{own.webhook.host}:{own.webhook.port}{own.webhook.path}"
            notes += (f"Put a TLS reverse proxy in front of {listening}, {_ENTER_URL}.",)
    finally:
        await client.close()
    return SetupResult(f"@{identity.name} in {identity.team}", notes)


def _missing_scopes(identity: BotIdentity) -> tuple[str, ...]:
    missing = [scope for scope in SCOPES if scope not in identity.scopes]
    if not identity.scopes or not missing:
        return ()
    if NEEDED_SCOPE in missing:
        raise LoginRefused(
            f"The app cannot send messages: add the scope {NEEDED_SCOPE} {_SCOPES_HINT}."
        )
    return (f"The app is missing scopes: add {', '.join(missing)} {_SCOPES_HINT}.",)


SPEC: Final = PlatformSpec(
    name="slack",
    title="Slack",
    settings=SlackSettings,
    make_adapter=make_adapter,
    check=check,
    validate=validate,
    before_setup=(
        "At https://api.slack.com/apps: Create New App > From a manifest, with the one in "
        "docs/slack.md; then Install App."
    ),
    user_id_help="Like U012ABCDEF: open a profile, then … > Copy member ID.",
    home_channel_help="Like C012ABCDEF: at the bottom of a channel's details.",
)
