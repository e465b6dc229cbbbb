"""The cost of a message does not grow with the number of lanes: few statements, all indexed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.config.gateway_config import GatewayConfig
from hermes_sessions.lifecycle.session_store import SessionStore
from hermes_sessions.storage.provider import Params, ReadTransaction, Row
from hermes_sessions.storage.repositories.turns import Turns
from hermes_sessions.storage.sqlite.connection import SQLiteOptions
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from hermes_sessions_testing.clock import FrozenClock
from tests.lifecycle.senders import ANN, ANNS_KEY, ann


class Explaining:
    """A transaction that notes how SQLite goes about what it is asked for."""

    def __init__(self, tx: Any, said: list[str], plan: list[str]) -> None:
        self._tx = tx
        self._said = said
        self._plan = plan

    def _note(self, sql: str, params: Params) -> None:
        self._said.append(sql)
        self._plan += [row[3] for row in self._tx.all(f"EXPLAIN QUERY PLAN {sql}", params)]

    def one(self, sql: str, params: Params = ()) -> Row | None:
        self._note(sql, params)
        found: Row | None = self._tx.one(sql, params)
        return found

    def all(self, sql: str, params: Params = ()) -> list[Row]:
        self._note(sql, params)
        found: list[Row] = self._tx.all(sql, params)
        return found

    def run(self, sql: str, params: Params = ()) -> int:
        self._note(sql, params)
        return int(self._tx.run(sql, params))

    def insert(self, sql: str, params: Params = ()) -> int:
        self._note(sql, params)
        return int(self._tx.insert(sql, params))


class ExplainingProvider(SQLiteSessionDBProvider):
    """The real one; notes transactions, statements, and how it went about them."""

    def __init__(self) -> None:
        super().__init__(":memory:", SQLiteOptions())
        self.units = 0
        self.said: list[str] = []
        self.plan: list[str] = []

    def forget(self) -> None:
        self.units = 0
        self.said.clear()
        self.plan.clear()

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        self.units += 1
        with super().read() as tx:
            yield Explaining(tx, self.said, self.plan)  # type: ignore[misc]

    def write(self, work: Callable[[Any], Any], **options: Any) -> Any:
        self.units += 1
        return super().write(lambda tx: work(Explaining(tx, self.said, self.plan)), **options)


@pytest.fixture
def provider() -> ExplainingProvider:
    return ExplainingProvider()


@pytest.fixture
def lived(
    tmp_path: Path, provider: ExplainingProvider, clock: FrozenClock
) -> Iterator[SessionStore]:
    with SessionDB(provider=provider, clock=clock) as db:
        config = GatewayConfig(write_sessions_json=False)
        with SessionStore(tmp_path, config, db=db) as store:
            for number in range(3):
                store.get_or_create_session(ann(chat_id=str(number)))
            provider.forget()
            yield store


def idle(store: SessionStore, clock: FrozenClock) -> object:
    clock.advance(days=2)
    return store.get_or_create_session(ANN)


@pytest.mark.parametrize(
    ("verb", "statements"),
    [
        (lambda store, _: store.get_or_create_session(ANN), 3),
        (lambda store, _: store.get_or_create_session(ann(chat_id="new")), 7),
        (idle, 9),
        (lambda store, _: store.update_session(ANNS_KEY, 7), 1),
        (lambda store, _: store.take_notice(ANNS_KEY), 2),
        (lambda store, _: store.peek(ANN), 2),
        (lambda store, _: store.reset_session(ANNS_KEY), 8),
        (lambda store, _: store.lookup_by_session_id("nowhere"), 2),
    ],
    ids=["keep", "create", "reset", "update", "notice", "peek", "new", "lookup"],
)
def test_few_statements_by_indexes(
    lived: SessionStore,
    provider: ExplainingProvider,
    clock: FrozenClock,
    verb: Callable[[SessionStore, FrozenClock], object],
    statements: int,
) -> None:
    verb(lived, clock)
    assert provider.units == 1
    assert len(provider.said) <= statements, provider.said
    assert not [
        step for step in provider.plan if step.startswith("SCAN") and "CONSTANT" not in step
    ]
    # By the bot alone would be all of its lanes.
    assert not [step for step in provider.plan if step.endswith("(namespace=?)")]


def test_a_page_begins_where_the_last_one_ended(
    lived: SessionStore, provider: ExplainingProvider
) -> None:
    lanes = lived.engine.lanes
    with provider.read() as tx:
        [first] = lanes.page(tx, "default", limit=1)
        provider.forget()
        lanes.page(tx, "default", limit=1, before=first)
        lanes.page_older(tx, "default", limit=1, until=first.updated_at + 1, after=first)
    assert [
        step for step in provider.plan if "updated_at<?" in step and "idx_lanes_updated" in step
    ]
    assert [step for step in provider.plan if "updated_at>? AND updated_at<?" in step]
    assert not [step for step in provider.plan if "TEMP B-TREE" in step]


def test_a_busy_lane_does_not_look_at_all_its_turns(
    lived: SessionStore, provider: ExplainingProvider
) -> None:
    Turns(lived.engine.store).running_on(lane_id=1)
    [said] = provider.said
    assert said.endswith("LIMIT 1")
    assert provider.plan == ["SEARCH turns USING INDEX idx_turns_lane (lane_id=?)"]
