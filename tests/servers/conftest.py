"""An empty store on each kind of server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.stores import (
    Place,
    mysql_place,
    mysql_store,
    postgresql_place,
    postgresql_store,
)

_SERVERS = {
    "postgresql": (postgresql_place, postgresql_store),
    "mariadb": (mysql_place, mysql_store),
}


@pytest.fixture(params=_SERVERS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    server = request.getfixturevalue(request.param)
    place_of, store_of = _SERVERS[request.param]
    with store_of(server, "servers"):
        yield place_of(server, "servers")
