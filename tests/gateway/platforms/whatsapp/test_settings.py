"""What may be written under ``platforms.whatsapp``."""

import pytest

from hermes_sessions.errors import ConfigError
from hermes_sessions.gateway.platforms.whatsapp.spec import SPEC
from tests.gateway.platforms.settings_reader import read

TOKEN = "EAAtesttokenoftheserverthatopensnothing"
SECRET = "0123456789abcdef0123456789abcdef"
VERIFY = "a-token-of-some-length"
NEEDED = {"phone_number_id": "106540352242922", "app_secret": SECRET, "verify_token": VERIFY}


def test_four_values_are_enough() -> None:
    settings = read(SPEC, TOKEN, NEEDED)
    assert settings.base_url == "https://graph.facebook.com"
    assert (settings.webhook.host, settings.webhook.port) == ("127.0.0.1", 8444)
    for secret in (TOKEN, SECRET, VERIFY):
        assert secret not in repr(settings)


def test_values_are_read_from_text() -> None:
    values = NEEDED | {
        "base_url": "http://localhost:8081/",
        "api_version": "v25.0",
        "max_file_bytes": "5MB",
        "of_another_program": ("1", "2"),
        "webhook": {"path": "/hooks/whatsapp", "host": "0.0.0.0", "port": "9000"},
    }
    settings = read(SPEC, TOKEN, values)
    assert settings.base_url == "http://localhost:8081"
    assert settings.api_version == "v25.0"
    assert settings.max_file_bytes == 5 * 1024**2
    assert (settings.webhook.path, settings.webhook.port) == ("/hooks/whatsapp", 9000)


@pytest.mark.parametrize(
    ("token", "values", "words"),
    [
        (None, NEEDED, "token is missing"),
        ("short", NEEDED, "token is not"),
        ("two words of some length here", NEEDED, "token is not"),
        (TOKEN, NEEDED | {"phone_number_id": None}, "phone_number_id is missing"),
        (TOKEN, NEEDED | {"phone_number_id": "+49157"}, "not the number itself"),
        (TOKEN, NEEDED | {"phone_number_id": "1234567/x"}, "phone_number_id is .*allowed"),
        (TOKEN, {"phone_number_id": "1234567", "verify_token": VERIFY}, "app_secret is missing"),
        (TOKEN, NEEDED | {"app_secret": "0123"}, "app_secret is not"),
        (TOKEN, NEEDED | {"verify_token": "short"}, "verify_token is not"),
        (TOKEN, NEEDED | {"base_url": "localhost"}, "base_url is .*begins with https"),
        (TOKEN, NEEDED | {"base_url": "http://[x"}, "base_url is .*begins with https"),
        (TOKEN, NEEDED | {"api_version": "../v1"}, "api_version is .*allowed"),
        (TOKEN, NEEDED | {"app_secrets": SECRET}, "did you mean app_secret"),
        (TOKEN, NEEDED | {"max_file_bytes": "0"}, "max_file_bytes is .*allowed"),
        (TOKEN, NEEDED | {"webhook": "https://x.org"}, "must be a section"),
        (TOKEN, NEEDED | {"webhook": {"path": "whatsapp"}}, "path is .*a path such as"),
        (TOKEN, NEEDED | {"webhook": {"path": "/{x}"}}, "path is .*a path such as"),
        (TOKEN, NEEDED | {"webhook": {"prot": "1"}}, "did you mean port"),
    ],
)
def test_mistakes_are_said(token: str | None, values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        read(SPEC, token, values)
    assert SECRET not in str(refused.value)
    assert VERIFY not in str(refused.value)


def test_people_are_listed_as_whatsapp_names_them() -> None:
    read(SPEC, TOKEN, NEEDED, users=("*", "4915700000007", "DE.1349120865530274191"))
    for user in ("+4915700000007", "49 157 00000007", "4915700000007@s.whatsapp.net"):
        with pytest.raises(ConfigError, match="write 4915700000007 instead"):
            read(SPEC, TOKEN, NEEDED, users=(user,))
