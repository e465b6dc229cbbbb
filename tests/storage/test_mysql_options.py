"""Where a MySQL store is, from a URL."""

from __future__ import annotations

import pytest

from hermes_sessions.errors import InvalidInput
from hermes_sessions.storage.mysql.configured import options_from_url
from hermes_sessions.storage.mysql.connections import Options
from hermes_sessions.storage.mysql.server_session import whole_seconds


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mysql://db.example/h", Options(host="db.example", database="h")),
        (
            "mariadb://ada:p%40ss%2F%3A@10.0.0.1:3307/my%20db",
            Options(host="10.0.0.1", port=3307, user="ada", password="p@ss/:", database="my db"),
        ),
        ("mysql://[::1]:3306/h", Options(host="::1", database="h")),
        (
            "mysql://u@/h?unix_socket=%2Frun%2Fmysqld.sock",
            Options(user="u", database="h", unix_socket="/run/mysqld.sock"),
        ),
        (
            "mysql://x/h?max_connections=3&lock_timeout=2.5&statement_timeout=0&ssl=on&ssl_ca=a.pem",
            Options(
                host="x",
                database="h",
                max_connections=3,
                lock_timeout=2.5,
                statement_timeout=0.0,
                ssl=True,
                ssl_ca="a.pem",
            ),
        ),
    ],
)
def test_urls(url: str, expected: Options) -> None:
    assert options_from_url(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:secret@host",
        "mysql://u:secret@host/",
        "mysql://u:secret@host/a/b",
        "mysql://u:secret@host:port/h",
        "mysql://u:secret@host:99999/h",
        "mysql://u:secret@[::1/h",
        "postgresql://u:secret@host/h",
        "mysql://u:secret@host/h?max_connections=0",
        "mysql://u:secret@host/h?max_connections=many",
        "mysql://u:secret@host/h?lock_timeout=nan",
        "mysql://u:secret@host/h?lock_timeout=-1",
        "mysql://u:secret@host/h?ssl=maybe",
        "mysql://u:secret@host/h?charset=latin1",
    ],
)
def test_what_cannot_be_read(url: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        options_from_url(url)
    assert "secret" not in str(raised.value)


def test_a_password_is_not_shown() -> None:
    options = options_from_url("mysql://ada:secret@host/h")
    assert "secret" not in repr(options)
    assert "ada" in repr(options)


@pytest.mark.parametrize(
    ("patience", "on_mariadb", "on_mysql"),
    [(0.05, 0, 1), (0.5, 1, 1), (1.2, 2, 2), (16.0, 16, 16), (1e12, 1_000_000, 1_000_000)],
)
def test_servers_wait_in_whole_seconds(patience: float, on_mariadb: int, on_mysql: int) -> None:
    assert whole_seconds(patience, True) == on_mariadb
    assert whole_seconds(patience, False) == on_mysql
