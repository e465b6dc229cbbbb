"""The servers that tests use: they do not wait for the disk.

A program that is missing is a failure: run ``./test``, which installs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scripts.local_servers import (
    POSTGRESQL_USER,
    Server,
    free_port,
    make_mariadb,
    make_postgresql,
    program,
    server_folder,
    unprivileged_user,
)

__all__ = [
    "Server",
    "free_port",
    "mysql_connection",
    "mysql_url",
    "postgresql_url",
    "start_mariadb",
    "start_pgbouncer",
    "start_postgresql",
]


def start_postgresql() -> Server:
    import psycopg

    server = make_postgresql(
        {
            "fsync": "off",
            "full_page_writes": "off",
            "max_connections": 200,
            "shared_buffers": "64MB",
        }
    )
    server.probe = lambda: psycopg.connect(postgresql_url(server), connect_timeout=5).close()
    server.start()
    return server


def postgresql_url(server: Server, database: str = "postgres", user: str = POSTGRESQL_USER) -> str:
    return f"postgresql://{user}@127.0.0.1:{server.port}/{database}"


def start_pgbouncer(behind: Server, **settings: str) -> Server:
    """A pooler in transaction mode before a PostgreSQL server."""
    import psycopg

    user = unprivileged_user("postgres")
    folder = server_folder("pgbouncer", user)
    port = free_port()
    users = folder / "users.txt"
    users.write_text('"hermes" ""\n')
    chosen = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "trust",
        "auth_file": str(users),
        "pool_mode": "transaction",
        "default_pool_size": "3",
        "max_client_conn": "100",
    } | settings
    lines = [f"{name} = {value}" for name, value in chosen.items()]
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host=127.0.0.1 port={behind.port}\n[pgbouncer]\n"
        + "\n".join(lines)
        + "\n"
    )
    server = Server(folder, port, [program("pgbouncer"), config], user)
    server.probe = lambda: psycopg.connect(postgresql_url(server), connect_timeout=5).close()
    server.start()
    return server


def start_mariadb(*settings: str) -> Server:
    import pymysql

    server = make_mariadb(
        [
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
            "--innodb-buffer-pool-size=128M",
            "--innodb-log-file-size=64M",
            "--max-connections=200",
            *settings,
        ]
    )
    server.probe = lambda: pymysql.connect(
        host="127.0.0.1", port=server.port, user="root", ssl_disabled=True
    ).close()
    server.start()
    return server


def mysql_url(server: Server, database: str = "") -> str:
    return f"mysql://root@127.0.0.1:{server.port}/{database}"


@contextmanager
def mysql_connection(server: Server, database: str | None = None) -> Iterator[Any]:
    import pymysql

    connection = pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user="root",
        database=database,
        autocommit=True,
        ssl_disabled=True,  # Else each connection reads all certificates of the system.
    )
    try:
        yield connection
    finally:
        connection.close()
