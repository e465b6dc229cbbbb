"""``platforms.slack``: the keys that only Slack has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hermes_sessions.config.key_types import Kind, Size, Text, YesNo
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.settings import (
    WebhookSettings,
    read_own_keys,
    read_webhook,
    web_address,
)

PUBLIC_API: Final = "https://slack.com/api"
#: Where Slack calls us, unless something else is set.
WEBHOOK: Final = WebhookSettings(path="/slack/events", port=8445)

_SECTION: Final = "platforms.slack"
_KEYS: Final[Mapping[str, Kind]] = {
    "app_token": Text(),
    "signing_secret": Text(),
    "base_url": Text(),
    "require_mention": YesNo(),
    "reply_in_thread": YesNo(),
    "max_file_bytes": Size(at_least=1, at_most=2 * 1024**3),
}
#: Slack may make tokens longer one day, but not start them otherwise.
_TOKEN: Final = re.compile(r"xoxb-[A-Za-z0-9-]{10,500}")
_APP_TOKEN: Final = re.compile(r"xapp-[A-Za-z0-9-]{10,500}")
_SIGNING_SECRET: Final = re.compile(r"[0-9a-fA-F]{32,64}")
_PERSON: Final = re.compile(r"[UW][A-Z0-9]{2,30}")
_PLACE: Final = re.compile(r"[CDG][A-Z0-9]{2,30}")


@dataclass(frozen=True, slots=True)
class SlackSettings:
    """How the app is connected, and what it takes.

    Either `app_token` is set (Socket Mode: we call Slack) or `signing_secret` (Events API: Slack
    calls us).
    """

    #: Of the bot, with which we call Slack.
    token: str = field(repr=False)
    #: Of the app, with which we ask for a socket.
    app_token: str | None = field(default=None, repr=False)
    #: With which Slack signs what it brings.
    signing_secret: str | None = field(default=None, repr=False)
    #: The Web API's server.
    base_url: str = PUBLIC_API
    #: In channels, only mentions and threads that the bot is in are for the bot.
    require_mention: bool = True
    #: A message in a channel is answered in a thread of its own, which is then the conversation.
    reply_in_thread: bool = False
    #: Larger files are left out, and the agent is told.
    max_file_bytes: int = 20 * 1024**2
    webhook: WebhookSettings = WEBHOOK

    @classmethod
    def read(cls, token: str | None, values: Mapping[str, object]) -> SlackSettings:
        """Return the settings, validated; *values* are the platform's keys besides the token.

        Other programs may keep keys of their own there: an unknown one is refused only when it
        looks like a misspelt one of ours.

        Raises:
            ConfigError: something is missing, misspelt or not allowed.
        """
        known = read_own_keys(_SECTION, _KEYS, values, others=["webhook"])
        if not token:
            raise ConfigError(
                f"{_SECTION}.token is missing: the bot token of the app, xoxb-…, from OAuth & "
                f"Permissions. See docs/slack.md."
            )
        _must_be(_TOKEN, "token", token, "the bot token of the app, which begins with xoxb-")
        _check_way_in(known.get("app_token"), known.get("signing_secret"))
        if "base_url" in known:
            known["base_url"] = web_address(f"{_SECTION}.base_url", known["base_url"])
        webhook = read_webhook(f"{_SECTION}.webhook", values.get("webhook"), default=WEBHOOK)
        return cls(token=token, webhook=webhook, **known)


def check_ids(users: Iterable[str], chats: Iterable[str]) -> None:
    """See to it that people and channels are listed as Slack names them.

    Raises:
        ConfigError: one is written in another way, and would never be let in.
    """
    for user in users:
        if user != "*" and not _PERSON.fullmatch(user):
            raise ConfigError(
                f"{_SECTION}.allowed_users: {user!r} is not a member ID. It looks like U012ABCDEF: "
                f"open the person's profile, then … > Copy member ID."
            )
    for chat in chats:
        if not _PLACE.fullmatch(chat):
            raise ConfigError(
                f"{_SECTION}.allowed_chats: {chat!r} is not the ID of a channel. It looks like "
                f"C012ABCDEF: open the channel's details; it is at the bottom."
            )


def _check_way_in(app_token: str | None, signing_secret: str | None) -> None:
    """See to it that exactly one way is open by which messages come in."""
    if app_token and signing_secret:
        raise ConfigError(
            f"{_SECTION}: set app_token (Socket Mode) or signing_secret (Events API), not both: "
            f"an app uses one of them."
        )
    if app_token:
        what = "an app-level token with connections:write, which begins with xapp-"
        _must_be(_APP_TOKEN, "app_token", app_token, what)
    elif signing_secret:
        what = "hexadecimal digits, from Basic Information > App Credentials"
        _must_be(_SIGNING_SECRET, "signing_secret", signing_secret, what)
    else:
        raise ConfigError(
            f"{_SECTION}: no message can come in. Set app_token (xapp-…, for Socket Mode, which "
            f"needs no address) or signing_secret (for the Events API). See docs/slack.md."
        )


def _must_be(form: re.Pattern[str], key: str, value: str, what: str) -> None:
    if not form.fullmatch(value):
        raise ConfigError(f"{_SECTION}.{key} is not what it should be: {what}.")
