"""Empty stores on the servers, one for each test that asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

from hermes_sessions import SessionDB
from hermes_sessions.storage.postgresql.schema import WATCHMAN
from hermes_sessions.storage.tables import SEARCH_TABLES, TABLES
from tests.servers.launching import Server, mysql_connection, postgresql_url

#: Opens a handle on one store; takes keyword arguments of `SessionDB`.
OpenStore = Callable[..., SessionDB]


class Place(NamedTuple):
    """Where one empty store is, for tests that go there by URL, perhaps through a proxy."""

    server: Server
    #: Gives the URL of a store by its name and the port to go through.
    url_of: Callable[[str, int], str]
    name: str

    @property
    def port(self) -> int:
        return self.server.port

    def url(self, port: int | None = None) -> str:
        return self.url_of(self.name, port or self.server.port)

    def new_url(self) -> str:
        """The URL of a store that nobody has opened yet."""
        return self.url_of(f"new_{uuid4().hex[:12]}", self.server.port)


def postgresql_place(server: Server, name: str) -> Place:
    def url_of(schema: str, port: int) -> str:
        return f"postgresql://hermes@127.0.0.1:{port}/postgres?schema={schema}"

    return Place(server, url_of, name)


_OF_THE_SERVER = ("read_only", "lock_timeout")


@contextmanager
def postgresql_store(server: Server, name: str) -> Iterator[OpenStore]:
    """An empty store in a schema of its own, emptied afterwards: that is faster than a new one."""
    import psycopg

    from hermes_sessions.storage.postgresql.connections import Options
    from hermes_sessions.storage.postgresql.provider import PostgreSQLSessionDBProvider

    url = postgresql_url(server)

    def open_handle(**options: Any) -> SessionDB:
        given = {key: options.pop(key) for key in _OF_THE_SERVER if key in options}
        provider = PostgreSQLSessionDBProvider(url, Options(schema=name, **given)).initialize()
        return SessionDB(provider=provider, **options)

    try:
        yield open_handle
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_emptied(name).encode())


def _emptied(schema: str) -> str:
    tables = [table.name for table in (*TABLES, *SEARCH_TABLES)]
    names = ", ".join(f'"{schema}".{table}' for table in [*tables, "search_documents"])
    return f"""
DO $$ BEGIN IF to_regclass('{schema}.sessions') IS NOT NULL THEN
    TRUNCATE {names} RESTART IDENTITY;
    INSERT INTO "{schema}".search_state (segmenter, indexed_through) VALUES (0, 0);
    INSERT INTO "{schema}".search_documents VALUES (0, '{WATCHMAN}:1');
END IF; END $$"""


def mysql_place(server: Server, name: str) -> Place:
    def url_of(database: str, port: int) -> str:
        if database.startswith("new_"):
            with mysql_connection(server) as connection:
                connection.cursor().execute(f"CREATE DATABASE {database}")
        return f"mysql://root@127.0.0.1:{port}/{database}"

    return Place(server, url_of, name)


@contextmanager
def mysql_store(server: Server, name: str) -> Iterator[OpenStore]:
    """An empty store in a database of its own, emptied afterwards, which is faster."""
    from hermes_sessions.storage.mysql.connections import Options
    from hermes_sessions.storage.mysql.provider import MySQLSessionDBProvider

    with mysql_connection(server) as connection:
        connection.cursor().execute(f"CREATE DATABASE IF NOT EXISTS {name}")

    def open_handle(**options: Any) -> SessionDB:
        given = {key: options.pop(key) for key in _OF_THE_SERVER if key in options}
        reached = Options(port=server.port, user="root", database=name, **given)
        return SessionDB(provider=MySQLSessionDBProvider(reached).initialize(), **options)

    try:
        yield open_handle
    finally:
        with mysql_connection(server, name) as connection:
            empty_mysql(connection.cursor())


def empty_mysql(cursor: Any) -> None:
    """Empty every table of the store in the current database, if there is one."""
    cursor.execute("SHOW TABLES LIKE 'search_documents'")
    if not cursor.fetchall():
        return
    cursor.execute("SET foreign_key_checks = 0")
    for table in [table.name for table in (*TABLES, *SEARCH_TABLES)] + ["search_documents"]:
        cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")
        if cursor.fetchall():
            cursor.execute(f"DELETE FROM {table}")
    for table in (
        table for table in (*TABLES, *SEARCH_TABLES) if table.columns[0].kind == "serial"
    ):
        cursor.execute(f"ALTER TABLE {table.name} AUTO_INCREMENT = 1")
    cursor.execute("INSERT INTO search_state (segmenter, indexed_through) VALUES (0, 0)")
    cursor.execute("INSERT INTO search_documents VALUES (0, UTC_TIMESTAMP(6), ' w__ ')")
