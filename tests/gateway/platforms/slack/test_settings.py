"""What may be written under ``platforms.slack``."""

import pytest

from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.registry import known_platforms
from hermes_sessions.gateway.platforms.slack.spec import SPEC
from tests.gateway.platforms.settings_reader import read

TOKEN = "xoxb-0000000000-0000000000000-testtoken"
APP_TOKEN = "xapp-1-A0TEST-0000000000-testtoken"
SECRET = "8f742231b10e8888abcd99eeefff85a5"


def test_two_values_are_enough() -> None:
    settings = read(SPEC, TOKEN, {"app_token": APP_TOKEN})
    assert settings.base_url == "https://slack.com/api"
    assert (settings.require_mention, settings.reply_in_thread) == (True, False)
    events = read(SPEC, TOKEN, {"signing_secret": SECRET})
    assert (events.webhook.path, events.webhook.port) == ("/slack/events", 8445)
    for secret in (TOKEN, APP_TOKEN, SECRET):
        assert secret not in repr(settings)
        assert secret not in repr(events)


def test_values_are_read_from_text() -> None:
    values = {
        "signing_secret": SECRET,
        "base_url": "http://localhost:8081/api/",
        "require_mention": "false",
        "reply_in_thread": "yes",
        "max_file_bytes": "5MB",
        "of_another_program": ("1", "2"),
        "webhook": {"path": "/hooks/slack", "host": "0.0.0.0", "port": "9000"},
    }
    settings = read(SPEC, TOKEN, values)
    assert settings.base_url == "http://localhost:8081/api"
    assert (settings.require_mention, settings.reply_in_thread) == (False, True)
    assert settings.max_file_bytes == 5 * 1024**2
    assert (settings.webhook.path, settings.webhook.port) == ("/hooks/slack", 9000)


SOCKET = {"app_token": APP_TOKEN}


@pytest.mark.parametrize(
    ("token", "values", "words"),
    [
        (None, SOCKET, "token is missing"),
        ("", SOCKET, "token is missing"),
        ("short", SOCKET, "begins with xoxb-"),
        ("xoxp-0000000000-0000000000000-testtoken", SOCKET, "begins with xoxb-"),
        (APP_TOKEN, SOCKET, "begins with xoxb-"),
        (TOKEN + "\r\nX: y", SOCKET, "token is not"),
        (TOKEN, {}, "cannot receive messages"),
        (TOKEN, {"app_token": ""}, "cannot receive messages"),
        (TOKEN, {"app_token": TOKEN}, "begins with xapp-"),
        (TOKEN, {"signing_secret": "secret"}, "signing_secret is not"),
        (TOKEN, SOCKET | {"signing_secret": SECRET}, "not both"),
        (TOKEN, SOCKET | {"base_url": "localhost"}, "base_url is .*begins with https"),
        (TOKEN, SOCKET | {"base_url": "http://[x"}, "base_url is .*begins with https"),
        (TOKEN, {"app_tokens": APP_TOKEN}, "did you mean app_token"),
        (TOKEN, {"signing_secrets": SECRET}, "did you mean signing_secret"),
        (TOKEN, SOCKET | {"require_mention": "perhaps"}, 'require_mention is "perhaps"; allowed'),
        (TOKEN, SOCKET | {"max_file_bytes": "0"}, "max_file_bytes is .*allowed"),
        (TOKEN, SOCKET | {"webhook": "https://x.org"}, "must be a section"),
        (TOKEN, SOCKET | {"webhook": {"path": "slack"}}, "path is .*a path such as"),
        (TOKEN, SOCKET | {"webhook": {"prot": "1"}}, "did you mean port"),
    ],
)
def test_mistakes_are_said(token: str | None, values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        read(SPEC, token, values)
    for secret in (TOKEN, APP_TOKEN, SECRET):
        assert secret not in str(refused.value)


def test_people_and_channels_are_listed_as_slack_names_them() -> None:
    ids = ("*", "U012ABCDEF", "W012ABCDEF")
    read(SPEC, TOKEN, SOCKET, users=ids, chats=("C012ABCDEF", "G012ABCDEF"))
    for user in ("@anna", "anna", "u012abcdef", "C012ABCDEF"):
        with pytest.raises(ConfigError, match="member ID"):
            read(SPEC, TOKEN, SOCKET, users=(user,))
    for chat in ("#general", "general", "U012ABCDEF"):
        with pytest.raises(ConfigError, match="ID of a channel"):
            read(SPEC, TOKEN, SOCKET, chats=(chat,))


def test_it_can_be_enabled() -> None:
    assert "slack" in known_platforms()
