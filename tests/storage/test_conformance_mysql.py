"""The conformance kit on MariaDB."""

from collections.abc import Callable, Iterator

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.conformance import *  # noqa: F403 - that is how the kit is used
from tests.servers.server_processes import Server
from tests.servers.stores import mysql_store


@pytest.fixture
def open_store(mariadb: Server) -> Iterator[Callable[..., SessionDB]]:
    with mysql_store(mariadb, "kit") as open_handle:
        yield open_handle
