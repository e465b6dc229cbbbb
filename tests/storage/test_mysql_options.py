"""Connection options of MySQL from a URL."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest

from hermes_sessions.config.settings import MySQLSettings
from hermes_sessions.errors import ConfigError, InvalidInput, StoreUnreachable
from hermes_sessions.storage.mysql.connection_options import options_from_settings, options_from_url
from hermes_sessions.storage.mysql.connections import Connections, Options
from hermes_sessions.storage.mysql.error_translation import is_connection_lost, translate
from hermes_sessions.storage.mysql.server_session import whole_seconds
from hermes_sessions.text.redaction import Redactor


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
            "mysql://ada:p%40ss@one:3307,two,[::1]:3308/h?ssl=off",
            Options(
                host="one",
                port=3307,
                other_nodes=(("two", 3306), ("::1", 3308)),
                user="ada",
                password="p@ss",
                database="h",
                ssl=False,
            ),
        ),
        ("mysql://a,[::1]/h", Options(host="a", other_nodes=(("::1", 3306),), database="h")),
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
        "mysql://u:secret@one,/h",
        "mysql://u:secret@,one/h",
        "mysql://u:secret@one:3306,,two/h",
        "mysql://u:secret@one:3306,two:port/h",
        "mysql://u:secret@one,[::1/h",
        "mysql://u:secret@one,u:secret@two:port/h",
        "mysql://u:secret@one,two/a/b",
        "mysql://u:secret@one,two/h?ssl=maybe",
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


@pytest.mark.parametrize("hosts", ["host", "one:3306,two:3307"])
def test_a_password_is_not_shown(hosts: str) -> None:
    url = f"mysql://ada:secret@{hosts}/h"
    options = options_from_url(url)
    assert "secret" not in repr(options)
    assert "ada" in repr(options)
    assert "secret" not in Redactor().text(url)
    assert "secret" not in Connections(options).location


def test_the_nodes_of_a_cluster_in_the_configuration() -> None:
    settings: dict[str, Any] = {
        "dsn": None,
        "host": "one, two:3308",
        "port": 3307,
        "user": "ada",
        "password": None,
        "database": "h",
        "max_connections": 10,
        "lock_timeout": 16.0,
        "statement_timeout": 120.0,
        "ssl_ca": None,
    }
    options = options_from_settings(MySQLSettings(**settings))
    assert options.nodes == (("one", 3307), ("two", 3308))
    assert Connections(options).location == "mysql://one:3307,two:3308/h"
    with pytest.raises(ConfigError, match="commas"):
        options_from_settings(MySQLSettings(**settings | {"host": "one,,two"}))


def test_a_node_outside_the_majority_is_unreachable() -> None:
    """Gateways keep messages in files when a store is unreachable."""
    for number, text in (
        (1047, "WSREP has not yet prepared node for application use"),
        (1047, "Unknown command"),
    ):
        error = pymysql.err.OperationalError(number, text)
        assert isinstance(translate(error, "here"), StoreUnreachable)
        assert is_connection_lost(error, None)


@pytest.mark.parametrize(
    ("patience", "on_mariadb", "on_mysql"),
    [(0.05, 0, 1), (0.5, 1, 1), (1.2, 2, 2), (16.0, 16, 16), (1e12, 1_000_000, 1_000_000)],
)
def test_servers_wait_in_whole_seconds(patience: float, on_mariadb: int, on_mysql: int) -> None:
    assert whole_seconds(patience, True) == on_mariadb
    assert whole_seconds(patience, False) == on_mysql
