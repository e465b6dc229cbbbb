"""The page about Slack names every scope."""

import re
from pathlib import Path

import yaml

from hermes_sessions.gateway.platforms.slack.adapter import SCOPES
from hermes_sessions_testing.fake_servers.slack.workspace import SCOPES as GRANTED

PAGE = Path(__file__).parents[4] / "docs" / "slack.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_manifest_asks_for_exactly_what_is_needed() -> None:
    manifest = yaml.safe_load(TEXT.partition("```yaml")[2].partition("```")[0])
    assert manifest["oauth_config"]["scopes"]["bot"] == sorted(SCOPES)
    assert sorted(GRANTED.split(",")) == sorted(SCOPES)
    assert manifest["settings"]["socket_mode_enabled"] is True
    assert "app_mention" in manifest["settings"]["event_subscriptions"]["bot_events"]
    explained = TEXT.partition("## Scopes")[2].partition("## ")[0]
    assert set(re.findall(r"`([a-z_]+(?::[a-z]+)|commands)`", explained)) == set(SCOPES)
