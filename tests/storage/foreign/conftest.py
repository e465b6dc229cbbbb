"""A store that another program writes to, on each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from hermes_sessions import SessionDB
from tests.servers.server_processes import Server
from tests.servers.stores import (
    OpenStore,
    mysql_place,
    mysql_store,
    postgresql_place,
    postgresql_store,
)
from tests.storage.foreign.programs import (
    Program,
    mysql_program,
    postgresql_program,
    sqlite_program,
)


class Shared(NamedTuple):
    """A store, and a program beside it that knows nothing but the documented columns."""

    program: Program
    open: OpenStore
    url: str
    #: Starts a second program.
    another: Callable[[], AbstractContextManager[Program]]

    def notes(self) -> list[str]:
        return sorted(row[0] for row in self.program.run("SELECT session_id FROM stale_sessions"))


Opening = Callable[[], AbstractContextManager[Shared]]


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def opening(request: pytest.FixtureRequest) -> Opening:
    @contextmanager
    def on_sqlite() -> Iterator[Shared]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "state.db"
            SessionDB(path).close()
            with sqlite_program(path) as program:
                yield Shared(
                    program,
                    lambda **options: SessionDB(path, **options),
                    f"sqlite:///{path}",
                    lambda: sqlite_program(path),
                )

    @contextmanager
    def on_server() -> Iterator[Shared]:
        server: Server = request.getfixturevalue(request.param)
        is_postgresql = request.param == "postgresql"
        store = postgresql_store if is_postgresql else mysql_store
        place = (postgresql_place if is_postgresql else mysql_place)(server, "others")
        beside = postgresql_program if is_postgresql else mysql_program
        with store(server, "others") as open_store:
            open_store().close()
            with beside(server, "others") as program:
                yield Shared(program, open_store, place.url(), lambda: beside(server, "others"))

    return on_sqlite if request.param == "sqlite" else on_server


@pytest.fixture
def shared(opening: Opening) -> Iterator[Shared]:
    with opening() as opened:
        yield opened
