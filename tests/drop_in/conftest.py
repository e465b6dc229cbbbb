"""`hermes_state.SessionDB` on an empty store of each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.storage.provider_registry import open_url
from hermes_sessions_testing.clock import FrozenClock
from hermes_state import SessionDB
from tests.servers.stores import mysql_store, postgresql_store

#: Opens a handle on the store under test.
OpenDropIn = Callable[..., SessionDB]


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def open_drop_in(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FrozenClock
) -> Iterator[OpenDropIn]:
    with ExitStack() as handles:
        if request.param == "sqlite":
            path = tmp_path / "state.db"

            def provider(**options: Any) -> Any:
                from hermes_sessions.storage.provider import OpenOptions

                return open_url(f"sqlite:///{path}", OpenOptions(**options))
        else:
            server = request.getfixturevalue(request.param)
            store = postgresql_store if request.param == "postgresql" else mysql_store
            open_store = handles.enter_context(store(server, "drop_in"))

            def provider(**options: Any) -> Any:
                return open_store(**options).provider

        def open_handle(**options: Any) -> SessionDB:
            db = SessionDB(provider=provider(**options), clock=clock)
            handles.callback(db.close)
            return db

        yield open_handle


@pytest.fixture
def db(open_drop_in: OpenDropIn) -> SessionDB:
    return open_drop_in()
