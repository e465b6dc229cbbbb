"""``platforms.matrix``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes_sessions.config import load_settings
from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.matrix.adapter import MatrixAdapter
from hermes_sessions.gateway.platforms.matrix.spec import SPEC
from hermes_sessions.gateway.platforms.registry import make_adapter
from tests.gateway.platforms.settings_reader import read

SERVER = {"homeserver": "https://matrix.example.org/"}
USER = {"user": "@hermes:example.org", "password": "secret"}


def test_a_token_or_a_password() -> None:
    assert read(SPEC, "t", SERVER).homeserver == "https://matrix.example.org"
    settings = read(SPEC, None, {**SERVER, **USER})
    assert (settings.user, settings.invites) == ("@hermes:example.org", "allowed")
    assert "secret" not in repr(settings)
    assert "syt_x" not in repr(read(SPEC, "syt_x", SERVER))


@pytest.mark.parametrize(
    ("token", "values", "words"),
    [
        ("t", {}, "homeserver is missing"),
        ("t", {"homeserver": "matrix.example.org"}, "begins with https://"),
        ("t", {"homeserver": "https://x:y@example.org"}, "begins with https://"),
        ("t", {"homeserver": "https://example.org:99999"}, "begins with https://"),
        ("t", {"homeserver": "https://["}, "begins with https://"),
        (None, SERVER, "needs a token, or user and password"),
        (None, {**SERVER, "user": "@a:b"}, "needs a token, or user and password"),
        (None, {**SERVER, "user": "hermes", "password": "x"}, "the whole id of the account"),
        ("t", {**SERVER, "invites": "some"}, "allowed, everyone, nobody"),
        ("t", {**SERVER, "require_mentions": "no"}, "did you mean require_mention"),
        ("t", {**SERVER, "sync_seconds": "0"}, "from 1 to 300"),
        ("t", {**SERVER, "homeserver": ["a"]}, "single value"),
    ],
)
def test_what_is_wrong_is_said(token: str | None, values: Mapping[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(SPEC, token, values)


def test_keys_of_other_programs_are_left_alone() -> None:
    read(SPEC, "t", {**SERVER, "recovery_key": "x"})


def test_the_adapter_is_made_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "platforms:\n  matrix:\n    token: t\n    homeserver: https://x.org\n    invites: nobody\n"
        "    allowed_users: ['@anna:x.org']\n    home_channel: {chat_id: '!home:x.org'}\n"
    )
    settings = load_settings(tmp_path, {}).platforms["matrix"]
    assert settings.home_channel.chat_id == "!home:x.org"
    assert isinstance(make_adapter("matrix", settings, tmp_path), MatrixAdapter)
