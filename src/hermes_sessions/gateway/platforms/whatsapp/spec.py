"""WhatsApp: settings, adapter and set-up."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.spec import PlatformSpec, SetupResult
from hermes_sessions.gateway.platforms.whatsapp.adapter import WhatsAppAdapter
from hermes_sessions.gateway.platforms.whatsapp.client import GraphClient
from hermes_sessions.gateway.platforms.whatsapp.settings import WhatsAppSettings
from hermes_sessions.model.lane import normalise_whatsapp

_ENTER_URL: Final = (
    "With the gateway running, enter the proxy's URL and the verify token under WhatsApp > "
    "Configuration, and subscribe to messages."
)


def make_adapter(own: WhatsAppSettings, _section: PlatformSettings, _home: Path) -> WhatsAppAdapter:
    """Return an adapter, not yet connected."""
    return WhatsAppAdapter(own)


def validate(_own: WhatsAppSettings, section: PlatformSettings) -> None:
    """Check that users are listed as WhatsApp names them.

    Raises:
        ConfigError: one is written in another way, and would silently never match.
    """
    for user in section.allowed_users:
        plain = "".join(normalise_whatsapp(user).split()).replace("-", "")
        if user not in {"*", plain}:
            raise ConfigError(
                f"platforms.whatsapp.allowed_users: write {plain or 'the number'} instead of "
                f"{user!r}: a number with its country code, digits only."
            )


async def check(own: WhatsAppSettings, _home: Path) -> SetupResult:
    """Return the name and the number of the account."""
    client = GraphClient(own)
    try:
        identity = await client.identify()
    finally:
        await client.close()
    listening = f"{own.webhook.host}:{own.webhook.port}{own.webhook.path}"
    return SetupResult(
        f"{identity.name} ({identity.number})",
        (f"Put a TLS reverse proxy in front of {listening}.", _ENTER_URL),
    )


SPEC: Final = PlatformSpec(
    name="whatsapp",
    title="WhatsApp",
    settings=WhatsAppSettings,
    make_adapter=make_adapter,
    check=check,
    validate=validate,
    before_setup=(
        "At https://developers.facebook.com/apps: Create App, for WhatsApp; docs/whatsapp.md has "
        "the steps."
    ),
    user_id_help="Numbers with their country code, digits only: 4915700000007.",
    home_channel_help="A user's number; they must have written within the last 24 hours.",
)
