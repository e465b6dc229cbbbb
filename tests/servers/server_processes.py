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
    make_postgresql_standby,
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
    "start_synchronous_standby",
]


_POSTGRESQL = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": 200,
    "shared_buffers": "64MB",
}


def start_postgresql() -> Server:
    return _started_postgresql(make_postgresql(_POSTGRESQL))


def start_synchronous_standby(primary: Server) -> Server:
    """A standby that has every commit of *primary* before it is acknowledged."""
    import psycopg

    standby = _started_postgresql(make_postgresql_standby(primary, _POSTGRESQL))
    with psycopg.connect(postgresql_url(primary), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        connection.execute("SELECT pg_reload_conf()")
    return standby


def _started_postgresql(server: Server) -> Server:
    import psycopg

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
            # Given to the system with each commit: a server that is killed keeps what it said.
            "--innodb-flush-log-at-trx-commit=2",
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
