"""How Slack is set up: the bot's token, and the way by which messages come in."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.agent.command_table import commands_for
from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.port import LoginRefused
from hermes_sessions.gateway.platforms.slack.adapter import NEEDED_SCOPE, SCOPES, SlackAdapter
from hermes_sessions.gateway.platforms.slack.client import BotIdentity, SlackClient
from hermes_sessions.gateway.platforms.slack.settings import SlackSettings, check_ids
from hermes_sessions.gateway.platforms.spec import Question, Setup, SetupResult

# Slack's adapter, made of its section in the configuration.


def make_adapter(settings: PlatformSettings, _home: Path) -> SlackAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing or not allowed.
    """
    check_ids(settings.allowed_users, settings.allowed_chats)
    names = [
        name for command in commands_for("gateway") for name in (command.name, *command.aliases)
    ]
    return SlackAdapter(SlackSettings.read(settings.token, settings.extra), commands=names)


_WHERE: Final = "under OAuth & Permissions, and install the app again"
_ENTERED: Final = "and enter it as Request URL under Event Subscriptions"


def read(settings: PlatformSettings, _home: Path) -> SlackSettings:
    """Return what is configured.

    Raises:
        ConfigError: it cannot be right.
    """
    check_ids(settings.allowed_users, settings.allowed_chats)
    return SlackSettings.read(settings.token, settings.extra)


async def check(settings: PlatformSettings, _home: Path) -> SetupResult:
    """Log in, with Socket Mode open a socket and close it; return who the bot is, and where.

    Raises:
        ConfigError, LoginRefused, Unreachable, RateLimited
    """
    own = read(settings, _home)
    client = SlackClient(own)
    try:
        identity = await client.identify()
        notes = _about_scopes(identity)
        if own.app_token:
            await (await client.open_socket()).close()
        else:
            listening = f"{own.webhook.host}:{own.webhook.port}{own.webhook.path}"
            notes += (f"Lead an https address to {listening}, {_ENTERED}.",)
    finally:
        await client.close()
    return SetupResult(f"@{identity.name} in {identity.team}", notes)


def _about_scopes(identity: BotIdentity) -> tuple[str, ...]:
    missing = [scope for scope in SCOPES if scope not in identity.scopes]
    if not identity.scopes or not missing:
        return ()
    if NEEDED_SCOPE in missing:
        raise LoginRefused(f"The app may not write: add the scope {NEEDED_SCOPE} {_WHERE}.")
    return (f"The app lacks the scopes {', '.join(missing)}: add them {_WHERE}.",)


SETUP: Final = Setup(
    title="Slack",
    before=(
        "At https://api.slack.com/apps: Create New App > From a manifest, with the one in "
        "docs/slack.md; then Install App."
    ),
    questions=(
        Question(
            "token",
            "Bot token",
            "Under OAuth & Permissions, as xoxb-…",
            variable="SLACK_BOT_TOKEN",
        ),
        Question(
            "app_token",
            "App token",
            "For Socket Mode, which needs no address: Basic Information > App-Level Tokens, with\n"
            "connections:write, as xapp-… Nothing: Slack calls you (Events API).",
            variable="SLACK_APP_TOKEN",
            is_optional=True,
            is_asked=lambda answers: not answers.get("signing_secret"),
        ),
        Question(
            "signing_secret",
            "Signing secret",
            "For the Events API: Basic Information > App Credentials.",
            variable="SLACK_SIGNING_SECRET",
            is_asked=lambda answers: not answers.get("app_token"),
        ),
    ),
    read=read,
    check=check,
    people="As U012ABCDEF: open a profile, then … > Copy member ID.",
    home="As C012ABCDEF: at the bottom of a channel's details.",
)
