"""The conformance kit on PostgreSQL."""

from collections.abc import Callable, Iterator

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.conformance import *  # noqa: F403 - that is how the kit is used
from tests.servers.server_processes import Server
from tests.servers.stores import postgresql_store


@pytest.fixture
def open_store(postgresql: Server) -> Iterator[Callable[..., SessionDB]]:
    with postgresql_store(postgresql, "kit") as open_handle:
        yield open_handle
