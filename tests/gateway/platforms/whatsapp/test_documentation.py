"""The page about WhatsApp names every key, with its default."""

import re
from dataclasses import asdict, fields
from pathlib import Path

from hermes_sessions.config.key_types import ParseContext, Size
from hermes_sessions.gateway.platforms.settings import WEBHOOK_KEYS
from hermes_sessions.gateway.platforms.whatsapp.settings import (
    _KEYS,
    WEBHOOK,
    WhatsAppSettings,
)

PAGE = Path(__file__).parents[4] / "docs" / "whatsapp.md"
ROWS = dict(re.findall(r"^\| `([a-z_.]+)` \| `?([^|`]*?)`? \|", PAGE.read_text(), re.MULTILINE))


def test_every_key_is_on_the_page() -> None:
    keys = {"token", *_KEYS, *(f"webhook.{name}" for name in WEBHOOK_KEYS)}
    assert ROWS.keys() == keys


def test_the_defaults_are_right() -> None:
    defaults = {each.name: each.default for each in fields(WhatsAppSettings)}
    defaults |= {f"webhook.{name}": value for name, value in asdict(WEBHOOK).items()}
    size = Size(at_least=0, at_most=10**12).parse(ROWS["max_file_bytes"], ParseContext(PAGE, {}))
    assert size == defaults["max_file_bytes"]
    for name in ("base_url", "api_version", "webhook.path", "webhook.host", "webhook.port"):
        assert ROWS[name] == str(defaults[name])
