"""New stores of every kind, by URL, and helpers to fill and compare them."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.jsonl import write_jsonl
from hermes_sessions.storage.transfer.comparison import Comparison, compare_stores
from hermes_sessions.storage.transfer.run import Transfer, TransferReport
from tests.servers.server_processes import Server, mysql_connection, mysql_url
from tests.servers.stores import postgresql_place

#: Gives the URL of a store of this kind that has not been opened yet.
NewStore = Callable[[str], str]

#: Names of providers.
KINDS = ("sqlite", "postgresql", "mysql")


def stores_in(tmp_path: Path, request: pytest.FixtureRequest) -> NewStore:
    def new(kind: str) -> str:
        if kind == "postgresql":
            return postgresql_place(request.getfixturevalue("postgresql"), "unused").new_url()
        if kind == "mysql":
            return new_mysql_url(request.getfixturevalue("mariadb"))
        return f"sqlite:///{tmp_path}/{uuid4().hex[:8]}.db"

    return new


def new_mysql_url(server: Server) -> str:
    name = f"new_{uuid4().hex[:12]}"
    with mysql_connection(server) as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    return mysql_url(server, name)


def copy_of(made: Callable[[str], object], url: str) -> str:
    """Put what *made* makes of an empty store at *url*; a file is made once and copied."""
    if url.startswith("sqlite"):
        Path(url.removeprefix("sqlite:///")).write_bytes(_file_with(made))
    else:
        made(url)
    return url


@cache
def _file_with(made: Callable[[str], object]) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "state.db"
        made(f"sqlite:///{path}")
        return path.read_bytes()


def opened(url: str, **options: Any) -> SessionDB:
    return SessionDB.from_url(url, **options)


def move(source: str, target: str, **options: Any) -> TransferReport:
    """Run a transfer as the command does: the source is opened for reading only."""
    with opened(source, read_only=True) as first, opened(target) as second:
        return Transfer(first.provider, second.provider, **options).run()


def compared(first: str, second: str) -> Comparison:
    with opened(first, read_only=True) as left, opened(second, read_only=True) as right:
        return compare_stores(left.provider, right.provider)


def exported(url: str) -> bytes:
    file = io.BytesIO()
    with opened(url, read_only=True) as db:
        write_jsonl(db.iter_export(), file)
    return file.getvalue()


def exported_content(url: str) -> list[dict[str, Any]]:
    """Return the exported records without what counts the changes in one store."""
    return [json.loads(line) | {"revision": 0} for line in exported(url).splitlines()]


def rows(url: str, sql: str, *params: Any) -> list[tuple[Any, ...]]:
    with opened(url, read_only=True) as db, db.provider.read() as tx:
        return tx.all(sql, params)
