"""A home of the released client on each database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients.adopted import IS_STOCK, Home, make_environment
from tests.servers.stores import mysql_store, postgresql_store

STORES = ["sqlite"] if IS_STOCK else ["sqlite", "postgresql", "mariadb"]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("client") / "environment")


@pytest.fixture(params=STORES)
def home(request: pytest.FixtureRequest, environment: Path, tmp_path: Path) -> Iterator[Home]:
    with _configured(request, request.param) as store, ExitStack() as stack:
        home = Home(environment, tmp_path / "home", store)
        stack.enter_context(home.model)
        yield home


@contextmanager
def _configured(request: pytest.FixtureRequest, database: str) -> Iterator[dict[str, Any]]:
    """The section ``sessiondb`` for an empty store."""
    if database == "sqlite":
        yield {"provider": "sqlite"}
        return
    server = request.getfixturevalue(database)
    where = {"host": "127.0.0.1", "port": server.port}
    if database == "postgresql":
        where |= {"user": "hermes", "database": "postgres", "schema": "client"}
        with postgresql_store(server, "client"):
            yield {"provider": "postgresql", "postgresql": where}
    else:
        where |= {"user": "root", "database": "client"}
        with mysql_store(server, "client"):
            yield {"provider": "mysql", "mysql": where}
