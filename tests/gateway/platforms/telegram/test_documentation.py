"""The page about Telegram names every key, with its default."""

import re
from dataclasses import fields
from pathlib import Path

from hermes_sessions.config.key_types import ParseContext, Size
from hermes_sessions.gateway.platforms.telegram.settings import (
    _KEYS,
    _WEBHOOK_KEYS,
    TelegramSettings,
    WebhookSettings,
)

PAGE = Path(__file__).parents[4] / "docs" / "telegram.md"
ROWS = dict(re.findall(r"^\| `([a-z_.]+)` \| `?([^|`]*?)`? \|", PAGE.read_text(), re.MULTILINE))


def test_every_key_is_on_the_page() -> None:
    keys = {"token", *_KEYS, *(f"webhook.{name}" for name in _WEBHOOK_KEYS)}
    assert ROWS.keys() == keys


def test_the_defaults_are_right() -> None:
    defaults = {each.name: each.default for each in fields(TelegramSettings)}
    defaults |= {f"webhook.{each.name}": each.default for each in fields(WebhookSettings)}
    size = Size(at_least=0, at_most=10**12).parse(ROWS["max_file_bytes"], ParseContext(PAGE, {}))
    assert size == defaults["max_file_bytes"]
    for name in ("base_url", "poll_seconds", "album_milliseconds", "webhook.host", "webhook.port"):
        assert ROWS[name] == str(defaults[name])
    assert (ROWS["require_mention"] == "true") is defaults["require_mention"]
