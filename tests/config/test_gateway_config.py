"""`GatewayConfig` as a value."""

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.config import load_settings
from hermes_sessions.config.gateway_config import GatewayConfig, HomeChannel
from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.reset_policy import SessionResetPolicy


def test_it_needs_nothing() -> None:
    config = GatewayConfig()
    assert config.get_reset_policy() == config.get_reset_policy("telegram", "dm")
    assert config.get_reset_policy() == SessionResetPolicy()
    assert (config.group_sessions_per_user, config.thread_sessions_per_user) == (True, False)
    assert (config.turn_timeout, config.auto_continue_freshness) == (1800, 3600)
    assert config.session_store_max_age_days == 0
    assert config.write_sessions_json is None
    assert hash(config) == hash(GatewayConfig())


def test_a_platform_wins_over_a_type_and_a_type_over_the_rest() -> None:
    by_type = {"dm": {"mode": "idle", "idle_minutes": 5, "notify": None}}
    config = GatewayConfig(
        SessionResetPolicy(at_hour=6), by_type, {"Telegram": {"mode": "none", "notify": False}}
    )
    assert config.get_reset_policy("telegram", "dm") == SessionResetPolicy(
        "none", 6, 5, notify=False
    )
    assert config.get_reset_policy("Telegram", "group") == SessionResetPolicy(
        "none", 6, notify=False
    )
    assert config.get_reset_policy("signal", "dm") == SessionResetPolicy("idle", 6, 5)
    assert config.get_reset_policy("signal", "group") == SessionResetPolicy(at_hour=6)
    assert config.get_reset_policy(None, None) == SessionResetPolicy(at_hour=6)


def test_it_does_not_change_with_what_it_was_made_of() -> None:
    overrides = {"dm": {"mode": "idle"}}
    channels = {"Signal": HomeChannel("1")}
    config = GatewayConfig(reset_by_type=overrides, home_channels=channels)
    overrides["dm"]["mode"] = "none"
    channels.clear()
    assert config.get_reset_policy("signal", "dm").mode == "idle"
    assert config.home_channels == {"signal": HomeChannel("1")}
    with pytest.raises(FrozenInstanceError):
        config.namespace = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        config.reset_by_type["dm"] = {}  # type: ignore[index]


@pytest.mark.parametrize(
    "values", [{"namespace": ""}, {"agent_cache_size": 0}, {"mailbox_limit": 0}]
)
def test_values_that_cannot_work(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        GatewayConfig(**values)


@pytest.mark.parametrize("overrides", [{"dm": {"at_hour": 25}}, {"dm": {"hour": 4}}])
def test_wrong_overrides_are_refused_at_once(overrides: dict[str, dict[str, object]]) -> None:
    with pytest.raises(InvalidInput, match="allowed"):
        GatewayConfig(reset_by_type=overrides)
    with pytest.raises(InvalidInput, match="allowed"):
        GatewayConfig(reset_by_platform=overrides)


def test_ids_of_people_may_be_a_list_or_a_text(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "platforms:\n"
        "  telegram:\n    allowed_users: [123, '@ann:matrix.org', '*']\n"
        "  discord:\n    allowed_users: 1, 2\n",
        encoding="utf-8",
    )
    platforms = load_settings(tmp_path, {}).platforms
    assert platforms["telegram"].allowed_users == ("123", "@ann:matrix.org", "*")
    assert platforms["discord"].allowed_users == ("1", "2")
    assert platforms["discord"].pairing is True
