"""``platforms.slack``: the keys that only Slack has."""

from __future__ import annotations

from typing import Final

from hermes_sessions.config.key_types import REQUIRED, YesNo
from hermes_sessions.config.sections import SettingsSection, section, setting
from hermes_sessions.gateway.platforms.settings import (
    Pattern,
    WebAddress,
    WebhookSettings,
    max_file_bytes,
    webhook_path,
    webhook_port,
)
from hermes_sessions.gateway.platforms.spec import Ask

PUBLIC_API: Final = "https://slack.com/api"


class SlackWebhookSettings(WebhookSettings):
    """``platforms.slack.webhook``: where Slack calls us with the Events API."""

    path: str = webhook_path("/slack/events", doc="The path of the request URL.")
    port: int = webhook_port(8445)


class SlackSettings(SettingsSection, shared=True):
    """How the app connects, and what it accepts.

    Either `app_token` is set (Socket Mode: we call Slack) or `signing_secret` (Events API: Slack
    calls us). Slack may make tokens longer one day, but not change how they begin.
    """

    token: str = setting(
        REQUIRED,
        kind=Pattern(
            r"xoxb-[A-Za-z0-9-]{10,500}",
            "the bot token of the app, which begins with xoxb-, from OAuth & Permissions",
        ),
        doc="The bot token, `xoxb-…`, best as `${VAR}`.",
        ask=Ask(
            name="Bot token",
            help="Under OAuth & Permissions, like xoxb-…",
            variable="SLACK_BOT_TOKEN",
        ),
    )
    app_token: str | None = setting(
        None,
        kind=Pattern(
            r"xapp-[A-Za-z0-9-]{10,500}",
            "an app-level token with connections:write, which begins with xapp-",
        ),
        doc="For Socket Mode: the app-level token, `xapp-…`, best as `${VAR}`.",
        ask=Ask(
            name="App token",
            help=(
                "For Socket Mode, which needs no public URL: Basic Information > App-Level\n"
                "Tokens, with connections:write, like xapp-… Leave empty for the Events API."
            ),
            variable="SLACK_APP_TOKEN",
            when=lambda answers: not answers.get("signing_secret"),
        ),
    )
    signing_secret: str | None = setting(
        None,
        kind=Pattern(
            r"[0-9a-fA-F]{32,64}", "hexadecimal digits, from Basic Information > App Credentials"
        ),
        doc="For the Events API: the secret with which Slack signs requests, best as `${VAR}`.",
        ask=Ask(
            name="Signing secret",
            help="For the Events API: Basic Information > App Credentials.",
            variable="SLACK_SIGNING_SECRET",
            is_needed=True,
            when=lambda answers: not answers.get("app_token"),
        ),
    )
    base_url: str = setting(PUBLIC_API, kind=WebAddress(), doc="The Web API.")
    require_mention: bool = setting(
        True,
        kind=YesNo(),
        doc="In channels, the app answers only mentions, threads it is in, and commands.",
    )
    reply_in_thread: bool = setting(
        False,
        kind=YesNo(),
        doc="Answers a mention in a channel in a thread of its own, which is the conversation.",
    )
    max_file_bytes: int = max_file_bytes(at_most=2 * 1024**3)
    webhook: SlackWebhookSettings = section(SlackWebhookSettings)
