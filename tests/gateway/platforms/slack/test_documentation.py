"""The page about Slack names every key with its default, and every scope."""

import re
from dataclasses import asdict, fields
from pathlib import Path

import yaml

from hermes_sessions.config.key_types import ParseContext, Size
from hermes_sessions.gateway.platforms.settings import WEBHOOK_KEYS
from hermes_sessions.gateway.platforms.slack.adapter import SCOPES
from hermes_sessions.gateway.platforms.slack.settings import (
    _KEYS,
    WEBHOOK,
    SlackSettings,
)
from hermes_sessions_testing.fake_servers.slack.workspace import SCOPES as GRANTED

PAGE = Path(__file__).parents[4] / "docs" / "slack.md"
TEXT = PAGE.read_text(encoding="utf-8")
SETTINGS = TEXT.partition("## Settings")[2].partition("## ")[0]
ROWS = dict(re.findall(r"^\| `([a-z_.]+)` \| `?([^|`]*?)`? \|", SETTINGS, re.MULTILINE))


def test_every_key_is_on_the_page() -> None:
    keys = {"token", *_KEYS, *(f"webhook.{name}" for name in WEBHOOK_KEYS)}
    assert ROWS.keys() == keys


def test_the_defaults_are_right() -> None:
    defaults = {each.name: each.default for each in fields(SlackSettings)}
    defaults |= {f"webhook.{name}": value for name, value in asdict(WEBHOOK).items()}
    size = Size(at_least=0, at_most=10**12).parse(ROWS["max_file_bytes"], ParseContext(PAGE, {}))
    assert size == defaults["max_file_bytes"]
    for name in ("base_url", "webhook.path", "webhook.host", "webhook.port"):
        assert ROWS[name] == str(defaults[name])
    for name in ("require_mention", "reply_in_thread"):
        assert ROWS[name] == str(defaults[name]).lower()


def test_the_manifest_asks_for_exactly_what_is_needed() -> None:
    manifest = yaml.safe_load(TEXT.partition("```yaml")[2].partition("```")[0])
    assert manifest["oauth_config"]["scopes"]["bot"] == sorted(SCOPES)
    assert sorted(GRANTED.split(",")) == sorted(SCOPES)
    assert manifest["settings"]["socket_mode_enabled"] is True
    assert "app_mention" in manifest["settings"]["event_subscriptions"]["bot_events"]
    explained = TEXT.partition("## Scopes")[2].partition("## ")[0]
    assert set(re.findall(r"`([a-z_]+(?::[a-z]+)|commands)`", explained)) == set(SCOPES)
