"""``platforms.whatsapp``: the keys that only WhatsApp has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hermes_sessions.config.key_types import Kind, Size, Text
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.settings import (
    WebhookSettings,
    read_own_keys,
    read_webhook,
    web_address,
)
from hermes_sessions.model.lane import normalise_whatsapp

PUBLIC_API: Final = "https://graph.facebook.com"
#: Where Meta calls us, unless something else is set.
WEBHOOK: Final = WebhookSettings(path="/whatsapp", port=8444)

_SECTION: Final = "platforms.whatsapp"
_KEYS: Final[Mapping[str, Kind]] = {
    "phone_number_id": Text(),
    "app_secret": Text(),
    "verify_token": Text(),
    "base_url": Text(),
    "api_version": Text(),
    "max_file_bytes": Size(at_least=1, at_most=2 * 1024**3),
}
#: What a header can carry.
_TOKEN: Final = re.compile(r"[!-~]{20,4096}")
_APP_SECRET: Final = re.compile(r"[0-9a-fA-F]{32}")
_VERIFY_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{16,256}")
_NUMBER_ID: Final = re.compile(r"[0-9]{5,32}")
_VERSION: Final = re.compile(r"v[0-9]{1,3}\.[0-9]{1,2}")


@dataclass(frozen=True, slots=True)
class WhatsAppSettings:
    """Which number it is, how Meta knows us and how we know Meta."""

    #: With which we call Meta.
    token: str = field(repr=False)
    #: The business number, by Meta's id of it.
    phone_number_id: str
    #: With which Meta signs what it brings.
    app_secret: str = field(repr=False)
    #: What Meta says when the webhook is set up.
    verify_token: str = field(repr=False)
    #: The Graph API's server, and which of its versions is spoken.
    base_url: str = PUBLIC_API
    api_version: str = "v24.0"
    #: Larger files are not fetched.
    max_file_bytes: int = 20 * 1024**2
    webhook: WebhookSettings = WEBHOOK

    @classmethod
    def read(cls, token: str | None, values: Mapping[str, object]) -> WhatsAppSettings:
        """Return the settings, validated; *values* are the platform's keys besides the token.

        Other programs may keep keys of their own there: an unknown one is refused only when it
        looks like a misspelt one of ours.

        Raises:
            ConfigError: something is missing, misspelt or not allowed.
        """
        known = read_own_keys(_SECTION, _KEYS, values, others=["webhook"])
        _must_be(_TOKEN, "token", token, "the access token of a system user")
        _must_be(
            _NUMBER_ID,
            "phone_number_id",
            known.get("phone_number_id"),
            "the id that Meta gave to the number, all digits; it is not the number itself",
        )
        # Without it nobody could tell what Meta says from what anybody says.
        _must_be(
            _APP_SECRET,
            "app_secret",
            known.get("app_secret"),
            "32 hexadecimal digits, from App settings > Basic",
        )
        _must_be(
            _VERIFY_TOKEN,
            "verify_token",
            known.get("verify_token"),
            "16 to 256 letters, digits, - or _ of your choice; `openssl rand -hex 32` makes one",
        )
        if "api_version" in known:
            _must_be(_VERSION, "api_version", known["api_version"], "a version such as v24.0")
        if "base_url" in known:
            known["base_url"] = web_address(f"{_SECTION}.base_url", known["base_url"])
        webhook = read_webhook(f"{_SECTION}.webhook", values.get("webhook"), default=WEBHOOK)
        return cls(token=token or "", webhook=webhook, **known)


def check_allowed_users(users: Iterable[str]) -> None:
    """See to it that people are listed as WhatsApp names them.

    Raises:
        ConfigError: one is written in another way, and would never be let in.
    """
    for user in users:
        plain = "".join(normalise_whatsapp(user).split()).replace("-", "")
        if user not in {"*", plain}:
            raise ConfigError(
                f"{_SECTION}.allowed_users: write {plain or 'the number'} instead of {user!r}: a "
                f"number with its country code, as digits alone."
            )


def _must_be(form: re.Pattern[str], key: str, value: str | None, what: str) -> None:
    if not value:
        raise ConfigError(f"{_SECTION}.{key} is missing: {what}. See docs/whatsapp.md.")
    if not form.fullmatch(value):
        raise ConfigError(f"{_SECTION}.{key} is not what it should be: {what}.")
