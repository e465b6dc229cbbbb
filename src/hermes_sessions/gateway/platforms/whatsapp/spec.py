"""How WhatsApp is set up: the number, how Meta knows us and how we know Meta."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from hermes_sessions.config.gateway_settings import PlatformSettings
from hermes_sessions.gateway.platforms.spec import Question, Setup, SetupResult
from hermes_sessions.gateway.platforms.whatsapp.adapter import WhatsAppAdapter
from hermes_sessions.gateway.platforms.whatsapp.client import GraphClient
from hermes_sessions.gateway.platforms.whatsapp.settings import (
    WhatsAppSettings,
    check_allowed_users,
)

# WhatsApp's adapter, made of its section in the configuration.


def make_adapter(settings: PlatformSettings, _home: Path) -> WhatsAppAdapter:
    """Return an adapter, not yet connected.

    Raises:
        ConfigError: something is missing or not allowed.
    """
    check_allowed_users(settings.allowed_users)
    return WhatsAppAdapter(WhatsAppSettings.read(settings.token, settings.extra))


_ENTERED: Final = (
    "With the gateway running, enter that address and the verify token under WhatsApp > "
    "Configuration, and subscribe to messages."
)


def read(settings: PlatformSettings, _home: Path) -> WhatsAppSettings:
    """Return what is configured.

    Raises:
        ConfigError: it cannot be right.
    """
    check_allowed_users(settings.allowed_users)
    return WhatsAppSettings.read(settings.token, settings.extra)


async def check(settings: PlatformSettings, _home: Path) -> SetupResult:
    """Return whose number it is.

    Raises:
        ConfigError, LoginRefused, Unreachable, RateLimited
    """
    own = read(settings, _home)
    client = GraphClient(own)
    try:
        identity = await client.identify()
    finally:
        await client.close()
    listening = f"{own.webhook.host}:{own.webhook.port}{own.webhook.path}"
    return SetupResult(
        f"{identity.name} ({identity.number})",
        (
            f"Lead an https address to {listening}.",
            _ENTERED,
        ),
    )


SETUP: Final = Setup(
    title="WhatsApp",
    before=(
        "At https://developers.facebook.com/apps: Create App, for WhatsApp; docs/whatsapp.md has "
        "the steps."
    ),
    questions=(
        Question(
            "token",
            "Access token",
            "Of a system user, without an end: Business settings > System users > Generate token.",
            variable="WHATSAPP_TOKEN",
        ),
        Question(
            "phone_number_id",
            "Phone number id",
            "Under WhatsApp > API Setup; it is not the number itself.",
        ),
        Question(
            "app_secret",
            "App secret",
            "Under App settings > Basic.",
            variable="WHATSAPP_APP_SECRET",
        ),
        Question(
            "verify_token",
            "Verify token",
            "Of your choice; Meta says it when the webhook is set up.",
            variable="WHATSAPP_VERIFY_TOKEN",
            make=lambda: secrets.token_hex(32),
        ),
    ),
    read=read,
    check=check,
    people="Numbers with their country code, as digits alone: 4915700000007.",
    home="Somebody's number; they must have written within the last 24 hours.",
)
