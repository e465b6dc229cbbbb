"""Connection options of PostgreSQL from a URL."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.postgresql.connection_options import options_from_url
from hermes_sessions.storage.provider import DEFAULT_OPEN_OPTIONS


def test_what_is_for_us_and_what_is_for_the_driver() -> None:
    options = options_from_url(
        "postgresql://ada:p%40ss%2F%3A@a:1,b:2/d%40b?schema=mine&max_connections=3"
        "&lock_timeout=2.5&statement_timeout=0&synchronous_commit=off&sslmode=require",
        DEFAULT_OPEN_OPTIONS,
    )
    assert options[1:6] == ("mine", 3, 2.5, 0.0, "off")
    facts = conninfo_to_dict(options.conninfo)
    assert facts["password"] == "p@ss/:"
    assert (facts["host"], facts["port"], facts["dbname"]) == ("a,b", "1,2", "d@b")
    assert facts["sslmode"] == "require"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:sec/ret@host:5432/h",
        "postgresql://u:1/secret@host:5432/h",
        "postgresql://u:secret@[::1/h",
        "postgresql://u:secret@host/h?unheard_of=1",
        "postgresql://u:secret@host/h?max_connections=0",
        "postgresql://u:secret@host/h?max_connections=many",
        "postgresql://u:secret@host/h?lock_timeout=nan",
        "postgresql://u:secret@host/h?lock_timeout=-1",
        "postgresql://u:secret@host/h?lock_timeout=1e30",
        "postgresql://u:secret@host/h?synchronous_commit=perhaps",
    ],
)
def test_what_cannot_be_read(url: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        options_from_url(url, DEFAULT_OPEN_OPTIONS)
    assert "sec" not in str(raised.value).replace("be seconds", "")


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(
        options_from_url("postgresql://ada:secret@host/h", DEFAULT_OPEN_OPTIONS)
    )
