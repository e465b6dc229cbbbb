"""Empty stores on the servers, one for each test that asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hermes_sessions import SessionDB
from hermes_sessions.storage.postgresql.schema import WATCHMAN
from hermes_sessions.storage.tables import SEARCH_TABLES, TABLES
from tests.servers.launching import Server, postgresql_url

#: Opens a handle on one store; takes keyword arguments of `SessionDB`.
OpenStore = Callable[..., SessionDB]
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
