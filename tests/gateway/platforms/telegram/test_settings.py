"""What may be written under ``platforms.telegram``."""

import pytest

from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.telegram.spec import SPEC
from tests.gateway.platforms.settings_reader import read

TOKEN = "123456789:AAbbccddeeffgghhiijjkkllmmnnooppqqr"
SECRET = "a-secret-of-some-length"


def test_a_token_is_enough() -> None:
    settings = read(SPEC, TOKEN, {})
    assert settings.base_url == "https://api.telegram.org"
    assert settings.webhook is None
    assert TOKEN not in repr(settings)


def test_values_are_read_from_text() -> None:
    values = {
        "base_url": "http://localhost:8081/",
        "require_mention": "no",
        "max_file_bytes": "5MB",
        "poll_seconds": "10",
        "of_another_program": ("1", "2"),
        "webhook": {"url": "https://bot.example.org/hook", "secret": SECRET, "port": "9000"},
    }
    settings = read(SPEC, TOKEN, values)
    assert settings.base_url == "http://localhost:8081"
    assert settings.require_mention is False
    assert settings.max_file_bytes == 5 * 1024**2
    assert settings.poll_seconds == 10
    assert settings.webhook is not None
    assert (settings.webhook.host, settings.webhook.port) == ("127.0.0.1", 9000)
    assert settings.webhook.path == "/hook"
    assert SECRET not in repr(settings)


@pytest.mark.parametrize(
    ("token", "values", "words"),
    [
        (None, {}, "token is missing"),
        ("", {}, "token is missing"),
        ("nonsense", {}, "token is not valid; allowed: a bot token"),
        (TOKEN, {"base_url": "localhost"}, "base_url is .*begins with https"),
        (TOKEN, {"base_url": "http://[x"}, "base_url is .*begins with https"),
        (TOKEN, {"require_mention": "perhaps"}, 'require_mention is "perhaps"; allowed'),
        (TOKEN, {"max_file_bytes": ("1",)}, "single value"),
        (TOKEN, {"requre_mention": "no"}, "did you mean require_mention"),
        (TOKEN, {"web_hook": {}}, "did you mean webhook"),
        (TOKEN, {"poll_seconds": "51"}, "poll_seconds is .*allowed"),
        (TOKEN, {"poll_seconds": "0"}, "poll_seconds is .*allowed"),
        (TOKEN, {"webhook": "https://x.org"}, "must be a section"),
        (TOKEN, {"webhook": {"secret": SECRET}}, "url is missing"),
        (TOKEN, {"webhook": {"url": "https://x.org"}}, "secret is missing: 16–256"),
        (TOKEN, {"webhook": {"url": "https://x.org", "secret": "short"}}, "16–256"),
        (TOKEN, {"webhook": {"ulr": "https://x.org"}}, "did you mean url"),
    ],
)
def test_mistakes_are_said(token: str | None, values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        read(SPEC, token, values)
    assert SECRET not in str(refused.value)
