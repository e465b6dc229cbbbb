"""``platforms.matrix``: the keys that only Matrix has."""

from __future__ import annotations

from typing import Literal, get_args

from hermes_sessions.config.key_types import (
    REQUIRED,
    Choice,
    NotAllowed,
    ParseContext,
    Text,
    WholeNumber,
    YesNo,
)
from hermes_sessions.config.sections import SettingsSection, setting
from hermes_sessions.gateway.platforms.matrix.identifiers import is_user_id
from hermes_sessions.gateway.platforms.settings import WebAddress, max_file_bytes
from hermes_sessions.gateway.platforms.spec import Answers, Ask

Invites = Literal["allowed", "everyone", "nobody"]


class _UserId(Text):
    allowed = "the whole id of the account, in quotes: '@hermes:example.org'"

    def parse(self, text: str, context: ParseContext) -> str | None:
        """Return the id, None when the text is blank, or raise NotAllowed."""
        user = super().parse(text, context)
        if user is not None and not is_user_id(user):
            raise NotAllowed
        return user


def _has_no_token(answers: Answers) -> bool:
    return not answers.get("token")


class MatrixSettings(SettingsSection, shared=True):
    """The account, and what it accepts. Either `token` is set, or `user` and `password`."""

    homeserver: str = setting(
        REQUIRED,
        kind=WebAddress(is_plain=True),
        doc="The URL of the account's homeserver, like `https://matrix.example.org`.",
        ask=Ask(name="Homeserver", help="The URL of its API, like https://matrix.example.org."),
    )
    token: str | None = setting(
        None,
        kind=Text(),
        doc="An access token of a device for the gateway alone; or set `user` and `password`.",
        ask=Ask(
            name="Access token",
            help=(
                "Made for the gateway alone, not copied from an app. Leave empty to use a password."
            ),
            variable="MATRIX_TOKEN",
            when=lambda answers: not answers.get("password"),
        ),
    )
    user: str | None = setting(
        None,
        kind=_UserId(),
        doc=(
            "The account, like `'@hermes:example.org'`. Needed with a password; a token is checked "
            "against it."
        ),
        ask=Ask(
            name="User",
            help="The whole id, like @hermes:example.org.",
            is_needed=True,
            when=_has_no_token,
        ),
    )
    password: str | None = setting(
        None,
        kind=Text(),
        doc="Used once, to create a device. Needs `enabled: true`.",
        ask=Ask(
            name="Password",
            help="Used once, at the first start.",
            variable="MATRIX_PASSWORD",
            is_needed=True,
            when=_has_no_token,
        ),
    )
    device_name: str = setting(
        "Hermes", kind=Text(), doc="The name of that device in the account's list of sessions."
    )
    invites: Invites = setting(
        "allowed",
        kind=Choice(get_args(Invites)),
        doc="Whose invitations are accepted: [In rooms](#in-rooms).",
    )
    require_mention: bool = setting(
        True,
        kind=YesNo(),
        doc=(
            "In rooms of more than two, the agent answers only commands, mentions and replies to "
            "the bot."
        ),
    )
    max_file_bytes: int = max_file_bytes(at_most=2 * 1024**3)
    sync_seconds: int = setting(
        30,
        kind=WholeNumber(at_least=1, at_most=300),
        doc="How long the homeserver holds a request for new events open.",
    )
