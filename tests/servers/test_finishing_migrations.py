"""Migrations that wait until no older version runs any more."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.mysql import migrations as mysql_migrations
from hermes_sessions.storage.postgresql import migrations as postgresql_migrations
from hermes_sessions.storage.servers.migrations import Migration
from tests.storage.transfer.stores import NewStore, stores_in

KINDS = ("postgresql", "mysql")


@pytest.fixture
def new_store(tmp_path: Any, request: pytest.FixtureRequest) -> NewStore:
    return stores_in(tmp_path, request)


def schema_of(kind: str) -> Any:
    return postgresql_migrations if kind == "postgresql" else mysql_migrations


def declare_finishing_step(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of(kind)
    step = Migration("9999_less", ("DROP TABLE compression_locks",), finishing=True)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))


@pytest.mark.parametrize("kind", KINDS)
def test_a_finishing_step_waits_to_be_asked_for(
    new_store: NewStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_store(kind)
    before = tuple(step.name for step in schema_of(kind).MIGRATIONS)
    declare_finishing_step(kind, monkeypatch)
    with SessionDB.from_url(url) as db:
        assert db.provider.steps() == (before, (), ("9999_less",), None)
        assert db.try_acquire_compression_lock("s", "holder", 10)
        assert db.provider.finish_steps() == ("9999_less",)
        assert db.provider.finish_steps() == ()
        assert db.provider.steps().finishing == ()
        # Other work continues.
        db.create_session("s", "cli")
    with SessionDB.from_url(url, read_only=True) as db:
        assert db.provider.steps().taken[-1] == "9999_less"
