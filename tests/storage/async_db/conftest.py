"""Every test here that asks for a store runs on every database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from tests.servers.stores import mysql_store, postgresql_store
from tests.storage.async_db.stores import PATIENT, OpenStore, TellingClock


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens handles on a store that has one empty session, "s"."""
    if request.param == "sqlite":

        def open_handle(**options: Any) -> SessionDB:
            return SessionDB(tmp_path / "state.db", **{"lock_timeout": PATIENT} | options)

        with open_handle() as db:
            db.create_session("s", "test")
        yield open_handle
        return
    server = request.getfixturevalue(request.param)
    new_store = postgresql_store if request.param == "postgresql" else mysql_store
    with new_store(server, "awaiting") as open_on_server:
        with open_on_server() as db:
            db.create_session("s", "test")
        yield lambda **options: open_on_server(**{"lock_timeout": PATIENT} | options)


@pytest.fixture
def clock() -> TellingClock:
    return TellingClock()
