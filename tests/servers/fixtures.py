"""The servers as fixtures: started when first asked for, once per process of the suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.galera import Cluster
from tests.servers.server_processes import Server, start_mariadb, start_postgresql


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    from tests.servers.cleanup import disconnect

    server = start_postgresql()
    yield server
    disconnect(server)
    server.destroy()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Server]:
    from tests.servers.cleanup import disconnect

    server = start_mariadb()
    yield server
    disconnect(server)
    server.destroy()


@pytest.fixture(scope="session")
def galera() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.destroy()
