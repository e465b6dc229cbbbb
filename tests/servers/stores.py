"""Empty stores on the servers, one for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from hermes_sessions import SessionDB
from tests.servers.cleanup import empty_mysql, empty_postgresql, make_mysql_database
from tests.servers.server_processes import Server, mysql_connection, postgresql_url

#: Opens a handle on one store; takes keyword arguments of `SessionDB`.
OpenStore = Callable[..., SessionDB]
Kind = Literal["postgresql", "mariadb"]
#: Runs a test of `open_store` on SQLite alone: what it tests is decided in Python, and what it
#: stores is stored on every database by the tests beside it.
ONCE = pytest.mark.parametrize("open_store", ["sqlite"], indirect=True)


class Place(NamedTuple):
    """Where one empty store is, for tests that go there by URL, perhaps through a proxy."""

    kind: Kind
    server: Server
    #: Gives the URL of a store by its name and the port to go through.
    url_of: Callable[[str, int], str]
    name: str

    @property
    def port(self) -> int:
        return self.server.port

    def url(self, port: int | None = None, **options: Any) -> str:
        return _with(self.url_of(self.name, port or self.server.port), options)

    def url_as(self, user: str) -> str:
        """The URL for another user, with the password if there is one."""
        return _as(user, self.url())

    def new_url(self, user: str | None = None) -> str:
        """The URL of a store that has not been opened yet."""
        url = self.url_of(f"new_{uuid4().hex[:12]}", self.server.port)
        return url if user is None else _as(user, url)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Execute statements beside the store, as who may do anything; return the last rows."""
        connection = _mysql_cursor if self.kind == "mariadb" else _postgresql_cursor
        with connection(self.server, self.name) as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    @contextmanager
    def holding(self, statement: str) -> Iterator[None]:
        """Keep what a statement locks, beside the store, until the block ends; then undo it."""
        connection = _mysql_cursor if self.kind == "mariadb" else _postgresql_cursor
        with connection(self.server, self.name) as cursor:
            cursor.execute("BEGIN")
            cursor.execute(statement)
            yield
            cursor.execute("ROLLBACK")


def _with(url: str, options: dict[str, Any]) -> str:
    if not options:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode(options)}"


def _as(user: str, url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{user}@{rest.partition('@')[2]}"


@contextmanager
def _mysql_cursor(server: Server, name: str) -> Iterator[Any]:
    with mysql_connection(server, name) as connection:
        yield connection.cursor()


@contextmanager
def _postgresql_cursor(server: Server, name: str) -> Iterator[Any]:
    import psycopg

    with psycopg.connect(postgresql_url(server), autocommit=True) as connection:
        connection.execute(f"SET search_path = {name}".encode())
        yield connection.cursor()


def postgresql_place(server: Server, name: str) -> Place:
    def url_of(schema: str, port: int) -> str:
        return f"postgresql://hermes@127.0.0.1:{port}/postgres?schema={schema}"

    return Place("postgresql", server, url_of, name)


#: No run of the tests ever waits that long; on a busy machine, units that are run again because of
#: others could use up what is the default.
PATIENT = 120.0


def _of_the_server(options: dict[str, Any]) -> dict[str, Any]:
    """Take what a server's own options are out of those of a handle."""
    return {name: options.pop(name, given) for name, given in _OF_THE_SERVER.items()}


_OF_THE_SERVER = {"read_only": False, "lock_timeout": PATIENT}


@contextmanager
def postgresql_store(server: Server, name: str) -> Iterator[OpenStore]:
    """An empty store in a schema of its own, emptied afterwards: that is faster than a new one."""
    from hermes_sessions.storage.postgresql.connections import Options
    from hermes_sessions.storage.postgresql.provider import PostgreSQLSessionDBProvider

    url = postgresql_url(server)

    def open_handle(**options: Any) -> SessionDB:
        given = _of_the_server(options)
        provider = PostgreSQLSessionDBProvider(url, Options(schema=name, **given)).initialize()
        return SessionDB(provider=provider, **options)

    try:
        yield open_handle
    finally:
        empty_postgresql(server, name)


def mysql_place(server: Server, name: str) -> Place:
    def url_of(database: str, port: int) -> str:
        if database.startswith("new_"):
            with mysql_connection(server) as connection:
                connection.cursor().execute(f"CREATE DATABASE {database}")
        return f"mysql://root@127.0.0.1:{port}/{database}"

    return Place("mariadb", server, url_of, name)


@contextmanager
def mysql_store(server: Server, name: str) -> Iterator[OpenStore]:
    """An empty store in a database of its own, emptied afterwards, which is faster."""
    from hermes_sessions.storage.mysql.connections import Options
    from hermes_sessions.storage.mysql.provider import MySQLSessionDBProvider

    make_mysql_database(server, name)

    def open_handle(**options: Any) -> SessionDB:
        given = _of_the_server(options)
        reached = Options(port=server.port, user="root", database=name, **given)
        return SessionDB(provider=MySQLSessionDBProvider(reached).initialize(), **options)

    try:
        yield open_handle
    finally:
        empty_mysql(server, name)


def use(db: SessionDB) -> None:
    """A bit of everything: session ``s`` with six messages, all of them indexed."""
    db.create_session("s", "cli", user_id="ada")
    db.set_session_title("s", "A title")
    first = db.append_message("s", "user", "the first question")
    db.append_messages("s", [{"role": "assistant", "content": f"answer {n}"} for n in range(5)])
    assert [hit["id"] for hit in db.search_messages("question")] == [first]
    assert len(db.get_messages("s")) == 6
    assert [row["id"] for row in db.list_sessions_rich()] == ["s"]
    assert [session["id"] for session in db.export_all()] == ["s"]
