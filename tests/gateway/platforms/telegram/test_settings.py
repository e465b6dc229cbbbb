"""What may be written under ``platforms.telegram``."""

import pytest

from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.telegram.settings import TelegramSettings

TOKEN = "123456789:AAbbccddeeffgghhiijjkkllmmnnooppqqr"
SECRET = "a-secret-of-some-length"


def test_a_token_is_enough() -> None:
    settings = TelegramSettings.read(TOKEN, {})
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
    settings = TelegramSettings.read(TOKEN, values)
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
        ("nonsense", {}, "not a token"),
        (TOKEN, {"base_url": "localhost"}, "base_url must be an address"),
        (TOKEN, {"base_url": "http://[x"}, "base_url must be an address"),
        (TOKEN, {"require_mention": "perhaps"}, "require_mention is not allowed"),
        (TOKEN, {"max_file_bytes": ("1",)}, "single value"),
        (TOKEN, {"requre_mention": "no"}, "did you mean require_mention"),
        (TOKEN, {"web_hook": {}}, "did you mean webhook"),
        (TOKEN, {"poll_seconds": "51"}, "poll_seconds is not allowed"),
        (TOKEN, {"poll_seconds": "0"}, "poll_seconds is not allowed"),
        (TOKEN, {"webhook": "https://x.org"}, "must be a section"),
        (TOKEN, {"webhook": {"secret": SECRET}}, "url is missing"),
        (TOKEN, {"webhook": {"url": "https://x.org"}}, "secret must be"),
        (TOKEN, {"webhook": {"url": "https://x.org", "secret": "short"}}, "secret must be"),
        (TOKEN, {"webhook": {"ulr": "https://x.org"}}, "did you mean url"),
    ],
)
def test_mistakes_are_said(token: str | None, values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        TelegramSettings.read(token, values)
    assert SECRET not in str(refused.value)
