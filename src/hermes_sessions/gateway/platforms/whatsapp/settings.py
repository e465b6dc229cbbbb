"""``platforms.whatsapp``: the keys that only WhatsApp has."""

from __future__ import annotations

import secrets
from typing import Final

from hermes_sessions.config.key_types import REQUIRED
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

PUBLIC_API: Final = "https://graph.facebook.com"


class WhatsAppWebhookSettings(WebhookSettings):
    """``platforms.whatsapp.webhook``: where Meta calls us."""

    path: str = webhook_path("/whatsapp", doc="The path of the callback URL.")
    port: int = webhook_port(8444)


class WhatsAppSettings(SettingsSection, shared=True):
    """The business number, and the secrets that we and Meta identify each other with."""

    token: str = setting(
        REQUIRED,
        kind=Pattern(r"[!-~]{20,4096}", "the access token of a system user"),
        doc="The access token of the system user, best as `${VAR}`.",
        ask=Ask(
            name="Access token",
            help=(
                "Of a system user, never expiring: Business settings > System users > Generate "
                "token."
            ),
            variable="WHATSAPP_TOKEN",
        ),
    )
    phone_number_id: str = setting(
        REQUIRED,
        kind=Pattern(
            r"[0-9]{5,32}", "Meta's id of the number, all digits; it is not the number itself"
        ),
        doc="Meta's id of the business number.",
        ask=Ask(
            name="Phone number id",
            help="Under WhatsApp > API Setup; it is not the number itself.",
        ),
    )
    # Without it, anyone could send requests that look like Meta's.
    app_secret: str = setting(
        REQUIRED,
        kind=Pattern(r"[0-9a-fA-F]{32}", "32 hexadecimal digits, from App settings > Basic"),
        doc="The secret with which Meta signs requests, best as `${VAR}`. It is always needed.",
        ask=Ask(
            name="App secret",
            help="Under App settings > Basic.",
            variable="WHATSAPP_APP_SECRET",
        ),
    )
    verify_token: str = setting(
        REQUIRED,
        kind=Pattern(
            r"[A-Za-z0-9_-]{16,256}",
            "16–256 letters, digits, - or _ that you choose; `openssl rand -hex 32` makes one",
        ),
        doc="A token that you choose; Meta sends it when the webhook is set up.",
        ask=Ask(
            name="Verify token",
            help="A token that you choose; Meta sends it when the webhook is set up.",
            variable="WHATSAPP_VERIFY_TOKEN",
            make=lambda: secrets.token_hex(32),
        ),
    )
    base_url: str = setting(PUBLIC_API, kind=WebAddress(), doc="The Graph API.")
    api_version: str = setting(
        "v24.0",
        kind=Pattern(r"v[0-9]{1,3}\.[0-9]{1,2}", "a version such as v24.0"),
        doc="The version of the Graph API.",
    )
    max_file_bytes: int = max_file_bytes(at_most=2 * 1024**3)
    webhook: WhatsAppWebhookSettings = section(WhatsAppWebhookSettings)
