"""The databases on which search is tried: what it finds must not depend on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from hermes_sessions import SessionDB

#: Opens a handle on one store; takes keyword arguments of `SessionDB`.
OpenStore = Callable[..., SessionDB]


@contextmanager
def sqlite_store(request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    """A file that nobody else uses."""
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    path = factory.mktemp("search") / "state.db"

    def open_handle(**options: Any) -> SessionDB:
        return SessionDB(path, durability="normal", **options)

    yield open_handle


#: By name: makes an empty store, gives what opens it, and removes it afterwards. A database on a
#: server asks the request for the fixture of its server.
PROVIDERS: dict[str, Callable[[pytest.FixtureRequest], AbstractContextManager[OpenStore]]] = {
    "sqlite": sqlite_store,
}
