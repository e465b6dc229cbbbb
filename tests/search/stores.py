"""The databases on which search is tried: what it finds must not depend on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from hermes_sessions import SessionDB
from tests.servers.stores import OpenStore, mysql_store, postgresql_store


@contextmanager
def _on_sqlite(request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    folder = request.getfixturevalue("tmp_path_factory").mktemp("search")

    def open_handle(**options: Any) -> SessionDB:
        return SessionDB(folder / "state.db", durability="normal", **options)

    yield open_handle


def _on_postgresql(request: pytest.FixtureRequest) -> AbstractContextManager[OpenStore]:
    return postgresql_store(request.getfixturevalue("postgresql"), "search")


def _on_mysql(request: pytest.FixtureRequest) -> AbstractContextManager[OpenStore]:
    return mysql_store(request.getfixturevalue("mariadb"), "search")


#: By name: makes an empty store, gives what opens it, and empties or removes it afterwards.
PROVIDERS: dict[str, Callable[[pytest.FixtureRequest], AbstractContextManager[OpenStore]]] = {
    "sqlite": _on_sqlite,
    "postgresql": _on_postgresql,
    "mysql": _on_mysql,
}
