"""Stores have the schema that released versions gave them: fresh, upgraded, and on servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from tests.storage import frozen_schema
from tests.storage.sqlite.hermes_files import NAMES, make

FROZEN = frozen_schema.read("sqlite")


def frozen_objects(name: str) -> frozen_schema.Objects:
    """Return what a file had; of upgraded ones, only what differs from a fresh one is kept."""
    fresh, own = FROZEN["fresh"], FROZEN[name]
    assert isinstance(fresh, dict)
    assert isinstance(own, dict)
    return {key: sql for key, sql in {**fresh, **own}.items() if sql or key not in own}


@pytest.mark.parametrize("name", ["fresh", *NAMES])
def test_sqlite(name: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    if name != "fresh":
        make(name, path)
    SessionDB(path).close()
    found = frozen_schema.objects_in(path)
    for key, frozen in frozen_objects(name).items():
        # Later steps may add columns, which SQLite writes before the constraints.
        columns, constraint, rest = frozen[:-1].partition(",FOREIGN KEY")
        is_grown = (
            key.startswith("table ")
            and found[key].startswith(columns + ",")
            and found[key].endswith(constraint + rest + ")")
        )
        assert is_grown or found[key] == frozen, key


@pytest.mark.parametrize("database", ["postgresql", "mysql"])
def test_servers(database: str) -> None:
    found = frozen_schema.server_steps(database)
    frozen = frozen_schema.read(database)
    assert {name: found.get(name) for name in frozen} == frozen
    assert list(found)[: len(frozen)] == list(frozen)
