"""Other programs, which know nothing but the documented columns: each with the driver it would use.

The one for SQLite is another process with the interpreter's own library.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.servers.server_processes import Server, mysql_connection, postgresql_url

_SQLITE = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
print(json.dumps(sqlite3.sqlite_version), flush=True)
for line in sys.stdin:
    sql, params = json.loads(line)
    try:
        print(json.dumps(connection.execute(sql, params).fetchall()), flush=True)
    except sqlite3.IntegrityError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
"""


class Refused(Exception):
    """The database does not take the row."""


class Program(Protocol):
    def run(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        """Execute a statement with ``?`` for parameters, in a transaction of its own unless one was
        begun; return its rows.
        """


class _SQLiteProgram:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._answer()

    def run(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([sql, params]) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if isinstance(answer, dict):
            raise Refused(answer["refused"])
        return [tuple(row) for row in answer]

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the program ended"
        return json.loads(line)


@contextmanager
def sqlite_program(path: Path) -> Iterator[Program]:
    command = [sys.executable, "-c", _SQLITE, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield _SQLiteProgram(process)
        assert process.stdin is not None
        process.stdin.close()


class _ServerProgram:
    def __init__(self, cursor: Any, refusal: type[Exception]) -> None:
        self._cursor = cursor
        self._refusal = refusal

    def run(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        try:
            self._cursor.execute(sql.replace("?", "%s"), params)
        except self._refusal as error:
            raise Refused(str(error)) from error
        return list(self._cursor.fetchall()) if self._cursor.description else []


@contextmanager
def postgresql_program(server: Server, schema: str) -> Iterator[Program]:
    import psycopg

    with psycopg.connect(postgresql_url(server), autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}".encode())
        yield _ServerProgram(connection.cursor(), psycopg.errors.IntegrityError)


@contextmanager
def mysql_program(server: Server, database: str) -> Iterator[Program]:
    import pymysql

    with mysql_connection(server, database) as connection:
        connection.autocommit(True)
        yield _ServerProgram(connection.cursor(), pymysql.err.IntegrityError)
