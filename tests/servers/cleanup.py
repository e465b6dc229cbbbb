"""Makes a used store new again, in a fraction of the time that a new one takes.

Thousands of tests do that, and most of them use a few tables only: one statement tells which, over
a connection that stays open from one test to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from hermes_sessions.storage.postgresql.migrations import SENTINEL_WORD
from hermes_sessions.storage.tables import ALL_TABLES
from tests.servers.server_processes import Server, postgresql_url

_NAMES = (*(table.name for table in ALL_TABLES), "search_documents")
_NUMBERED = tuple(table for table in ALL_TABLES if table.columns[0].kind == "serial")
#: The rows of a new store.
_FIRST_ROWS = {
    "search_state": "segmenter = 0 AND indexed_through = 0 AND newest = 0 AND ordered_from = 0"
    " AND disorder = 0",
    "search_documents": f"number = 0 AND tokens = '{{}}{SENTINEL_WORD}{{}}'",
}
#: Deleted rows stay in the files of PostgreSQL for a while. Beyond this, new files are faster.
_BYTES_TO_DELETE = 400_000

_connections: WeakKeyDictionary[Server, Any] = WeakKeyDictionary()


def _connection(server: Server, connect: Callable[[Server], Any]) -> Any:
    if server not in _connections:
        _connections[server] = connect(server)
    return _connections[server]


def disconnect(server: Server) -> None:
    """Close the connection that was kept, if there is one."""
    connection = _connections.pop(server, None)
    if connection is not None:
        with suppress(Exception):  # It may be lost already, in whatever way a driver says so.
            connection.close()


@cache
def _usage(place: str, before: str, after: str, *more: str) -> str:
    """Return a statement that gives a row for each table: its name and whether it is not new."""
    found = []
    for name in _NAMES:
        table = f"{place}.{name}"
        row = _FIRST_ROWS.get(name, "").format(before, after)
        used = f"EXISTS (SELECT 1 FROM {table})"
        if row:
            used = (
                f"NOT EXISTS (SELECT 1 FROM {table} WHERE {row})"
                f" OR EXISTS (SELECT 1 FROM {table} WHERE NOT ({row}))"
            )
        columns = ", ".join([f"'{name}'", used, *more]).replace("TABLE", table)
        found.append(f"SELECT {columns}")
    return " UNION ALL ".join(found)


# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────────


def _to_postgresql(server: Server) -> Any:
    import psycopg

    connection = psycopg.connect(postgresql_url(server), autocommit=True)
    # No triggers: what they would note is deleted as well.
    connection.execute("SET session_replication_role = replica")
    return connection


def empty_postgresql(server: Server, schema: str) -> None:
    """Empty every table of the store in a schema, if there is one."""
    import psycopg

    try:
        _empty_schema(_connection(server, _to_postgresql), schema)
    except psycopg.OperationalError:  # A test may have stopped the server.
        disconnect(server)
        _empty_schema(_connection(server, _to_postgresql), schema)


def _empty_schema(connection: Any, schema: str) -> None:
    found = connection.execute("SELECT to_regclass(%s)", [f"{schema}.sessions"]).fetchone()
    if found == (None,):
        return
    rows = connection.execute(_usage(schema, "''", "'':1", "pg_relation_size('TABLE')")).fetchall()
    used = [name for name, is_used, _ in rows if is_used]
    if any(size > _BYTES_TO_DELETE for _, _, size in rows):
        used = list(_NAMES)
        names = ", ".join(f"{schema}.{name}" for name in _NAMES)
        statements = [f"TRUNCATE {names}"]
    else:
        # The inverted index keeps what was deleted until it is cleaned.
        statements = [
            f"TRUNCATE {schema}.{name}"
            if name == "search_documents"
            else f"DELETE FROM {schema}.{name}"
            for name in used
        ]
    if "search_state" in used:
        statements.append(
            f"INSERT INTO {schema}.search_state (segmenter, indexed_through) VALUES (0, 0)"
        )
    if "search_documents" in used:
        statements.append(f"INSERT INTO {schema}.search_documents VALUES (0, '{SENTINEL_WORD}:1')")
    for table in _NUMBERED:
        sequence = f"{schema}.{table.name}_{table.columns[0].name}_seq"
        statements.append(f"SELECT setval('{sequence}', 1, false)")
    connection.execute("; ".join(statements))


# ── MariaDB ───────────────────────────────────────────────────────────────────────────────────


def _to_mysql(server: Server) -> Any:
    import pymysql

    return pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user="root",
        autocommit=True,
        ssl_disabled=True,
        init_command="SET foreign_key_checks = 0",
    )


def make_mysql_database(server: Server, name: str) -> None:
    """Create a database unless it exists."""
    _mysql_cursor(server).execute(f"CREATE DATABASE IF NOT EXISTS {name}")


def _mysql_cursor(server: Server) -> Any:
    import pymysql

    try:
        _connection(server, _to_mysql).ping()
    except pymysql.err.Error:  # A test may have stopped the server.
        disconnect(server)
    return _connection(server, _to_mysql).cursor()


def empty_mysql(server: Server, database: str) -> None:
    """Empty every table of the store in a database, if there is one."""
    cursor = _mysql_cursor(server)
    cursor.execute(
        "SELECT table_name, auto_increment FROM information_schema.tables WHERE table_schema = %s",
        [database],
    )
    numbers = dict(cursor.fetchall())
    if "search_documents" not in numbers:
        return
    cursor.execute(_usage(database, " ", " "))
    used = {name for name, is_used in cursor.fetchall() if is_used}
    if used & {"sessions", "messages"}:
        # Triggers note what is deleted there.
        used |= {"search_queue", "search_titles"}
    for name in _NAMES:
        if name in used:
            cursor.execute(f"DELETE FROM {database}.{name}")
    for table in _NUMBERED:
        if numbers[table.name] != 1:
            cursor.execute(f"ALTER TABLE {database}.{table.name} AUTO_INCREMENT = 1")
    if "search_state" in used:
        cursor.execute(
            f"INSERT INTO {database}.search_state (segmenter, indexed_through) VALUES (0, 0)"
        )
    if "search_documents" in used:
        cursor.execute(
            f"INSERT INTO {database}.search_documents "
            f"VALUES (0, UTC_TIMESTAMP(6), ' {SENTINEL_WORD} ')"
        )
