"""Empty stores: tests of this folder that use one run on every database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions_testing.conformance import clock, db, open_another  # noqa: F401 - fixtures
from tests.servers.stores import (
    OpenStore,
    mysql_place,
    mysql_store,
    postgresql_place,
    postgresql_store,
)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens a handle on the store of a test; takes keyword arguments of `SessionDB`."""
    if request.param == "sqlite":
        yield lambda **options: SessionDB(tmp_path / "state.db", **options)
        return
    server = request.getfixturevalue(request.param)
    store_of = {"postgresql": postgresql_store, "mariadb": mysql_store}[request.param]
    with store_of(server, "lifecycle") as open_handle:
        yield open_handle


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store, for tests of several processes."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'state.db'}"
        return
    server = request.getfixturevalue(request.param)
    place_of, store_of = {
        "postgresql": (postgresql_place, postgresql_store),
        "mariadb": (mysql_place, mysql_store),
    }[request.param]
    with store_of(server, "lifecycle_processes"):
        yield place_of(server, "lifecycle_processes").url()


@pytest.fixture
def open_sessions(
    db: SessionDB,  # noqa: F811
    tmp_path: Path,
) -> Iterator[Callable[..., SessionStore]]:
    """Opens a `SessionStore` on the store of a test; takes fields of `GatewayConfig`."""
    with ExitStack() as opened:

        def open_one(
            fn: Callable[[str], bool] | None = None, on: SessionDB | None = None, **config: Any
        ) -> SessionStore:
            store = SessionStore(
                tmp_path / "sessions", GatewayConfig(**config), fn, db=db if on is None else on
            )
            return opened.enter_context(store)

        yield open_one


@pytest.fixture
def sessions(open_sessions: Callable[..., SessionStore]) -> SessionStore:
    """A `SessionStore` with the documented defaults."""
    return open_sessions()
