"""The query plan of a session list page: by index, in order, for any number of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hermes_sessions.model.scope import Scope
from hermes_sessions.storage.provider import Params, ReadTransaction, Row
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite.connection import SQLiteOptions
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider

ANNA = Scope(user_id="anna")


class Explaining:
    """A transaction that notes how SQLite goes about what it is asked for."""

    def __init__(self, tx: ReadTransaction, plan: list[str]) -> None:
        self._tx = tx
        self._plan = plan

    def all(self, sql: str, params: Params = ()) -> list[Row]:
        self._plan += [row[3] for row in self._tx.all(f"EXPLAIN QUERY PLAN {sql}", params)]
        return self._tx.all(sql, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


class ExplainingProvider(SQLiteSessionDBProvider):
    """The real one; `plan` is how it went about the reads so far."""

    def __init__(self) -> None:
        super().__init__(":memory:", SQLiteOptions())
        self.plan: list[str] = []

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        with super().read() as tx:
            yield Explaining(tx, self.plan)


@pytest.mark.parametrize(
    ("options", "index"),
    [
        ({}, "idx_sessions_active"),
        ({"scope": ANNA}, "idx_sessions_user"),
        ({"scope": ANNA, "source": "cli"}, "idx_sessions_user"),
        ({"scope": Scope(user_id="anna", source="cli")}, "idx_sessions_user"),
        ({"scope": ANNA, "include_children": True, "include_archived": True}, "idx_sessions_user"),
    ],
    ids=repr,
)
def test_a_page_comes_from_an_index_in_its_order(options: dict[str, Any], index: str) -> None:
    provider = ExplainingProvider()
    with SessionDB(provider=provider) as db:
        for number in range(3):
            db.create_session(f"{number}", "cli", user_id="anna" if number else "ben")
        rows = db.list_sessions_rich(**options)
    assert [row["id"] for row in rows] == (["2", "1"] if "scope" in options else ["2", "1", "0"])
    page = [step for step in provider.plan if "sessions" in step]
    assert index in page[0]
    assert not [step for step in provider.plan if "TEMP B-TREE" in step]
