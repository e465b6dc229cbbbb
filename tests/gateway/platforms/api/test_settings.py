"""What may be written under ``platforms.api``."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.api.settings import ApiSettings
from hermes_sessions.gateway.platforms.api.spec import SPEC
from tests.gateway.platforms.settings_reader import read

TOKEN = "0123456789abcdef"


def test_a_token_is_enough() -> None:
    settings = read(SPEC, TOKEN, {})
    assert (settings.host, settings.port) == ("127.0.0.1", 8642)


def test_every_key_can_be_set() -> None:
    values = {
        "host": "::1",
        "port": "0",
        "max_body_bytes": "2MB",
        "body_seconds": "5",
        "head_seconds": "2.5",
        "reply_seconds": "60",
        "max_connections": "10",
    }
    assert read(SPEC, TOKEN, values) == ApiSettings(
        token=TOKEN,
        host="::1",
        port=0,
        max_body_bytes=2 * 1024**2,
        body_seconds=5.0,
        head_seconds=2.5,
        reply_seconds=60.0,
        max_connections=10,
    )


def test_the_token_is_not_shown() -> None:
    assert TOKEN not in repr(read(SPEC, TOKEN, {}))


@pytest.mark.parametrize(
    ("token", "values", "words"),
    [
        (None, {}, "platforms.api.token is missing"),
        ("", {}, "openssl rand"),
        ("short", {}, "16–512"),
        ("with a space in it", {}, "without spaces"),
        ("x" * 15 + "ä", {}, "16–512"),
        (TOKEN, {"port": "70000"}, 'platforms.api.port is "70000"; allowed: a whole number'),
        (TOKEN, {"hots": "x"}, "platforms.api has no key hots; did you mean host"),
        (TOKEN, {"webhook": "x"}, "known: "),
        (TOKEN, {"host": ("a", "b")}, "must be a single value"),
        (TOKEN, {"max_body_bytes": "0"}, "allowed: a size"),
    ],
)
def test_what_is_wrong_is_said(token: str | None, values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        read(SPEC, token, values)
    assert not token or token not in str(error.value)
