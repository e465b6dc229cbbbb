"""``platforms.discord`` in config.yaml."""

from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.config import load_settings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.discord.adapter import DiscordAdapter
from hermes_sessions.gateway.platforms.discord.settings import DiscordSettings
from hermes_sessions.gateway.platforms.discord.spec import SPEC
from hermes_sessions.gateway.platforms.registry import known_platforms, make_adapter
from hermes_sessions_testing.fake_servers.discord.server import TOKEN
from tests.gateway.platforms.settings_reader import read


def test_the_defaults() -> None:
    settings = read(SPEC, TOKEN, {})
    assert settings == DiscordSettings(token=TOKEN)
    assert settings.require_mention is True
    assert TOKEN not in repr(settings)


def test_every_key() -> None:
    values = {
        "base_url": "http://127.0.0.1:1/",
        "require_mention": "false",
        "free_response_channels": ("30", "31"),
        "max_file_bytes": "1MB",
        "catch_up_hours": "2",
        "somebody_elses": "key",
    }
    assert read(SPEC, TOKEN, values) == DiscordSettings(
        token=TOKEN,
        base_url="http://127.0.0.1:1",
        require_mention=False,
        free_response_channels=frozenset({"30", "31"}),
        max_file_bytes=1024**2,
        catch_up_hours=2,
    )


@pytest.mark.parametrize("value", ["30, 31", ["30", 31], "31,30"])
def test_channels_as_a_list_or_as_text(value: Any) -> None:
    settings = read(SPEC, TOKEN, {"free_response_channels": value})
    assert settings.free_response_channels == {"30", "31"}


@pytest.mark.parametrize(
    ("token", "values", "words"),
    [
        (None, {}, "token is missing"),
        ("abc", {}, "Reset Token"),
        (f"Bot {TOKEN}", {}, "without the word Bot"),
        (TOKEN, {"require_mentions": "no"}, "did you mean require_mention"),
        (TOKEN, {"free_response_channel": "1"}, "did you mean free_response_channels"),
        (TOKEN, {"require_mention": "perhaps"}, 'require_mention is "perhaps"; allowed'),
        (TOKEN, {"base_url": "discord.com"}, "https://"),
        (TOKEN, {"base_url": "http://[x"}, "https://"),
        (TOKEN, {"free_response_channels": ["#general"]}, "Copy Channel ID"),
        (TOKEN, {"catch_up_hours": "-1"}, "catch_up_hours"),
    ],
)
def test_what_is_wrong_is_said(token: str | None, values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        read(SPEC, token, values)
    assert TOKEN not in str(refused.value)


def test_the_section_makes_an_adapter(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        f"platforms:\n  discord:\n    token: {TOKEN}\n    allowed_roles: [41]\n"
        "    free_response_channels: [30]\n"
    )
    settings = load_settings(tmp_path, {})
    assert settings.warnings == ()
    section = settings.platforms["discord"]
    assert section.allowed_roles == ("41",)
    assert isinstance(make_adapter("discord", section, tmp_path), DiscordAdapter)
    assert "discord" in known_platforms()
