"""The conformance kit on SQLite files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.conformance import *  # noqa: F403 - that is how the kit is used


@pytest.fixture
def open_store(tmp_path: Path) -> Callable[..., SessionDB]:
    def open_handle(**options: object) -> SessionDB:
        return SessionDB(tmp_path / "state.db", **options)

    return open_handle


def test_the_directories_of_a_new_store_are_created(tmp_path: Path) -> None:
    """Behaviour 10: parent directories of the path are created."""
    with SessionDB(tmp_path / "a" / "b" / "state.db") as db:
        db.create_session("s", "cli")
    assert (tmp_path / "a" / "b" / "state.db").exists()
