"""The same calls give the same results on every database."""

from __future__ import annotations

import random
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions_testing.clock import FrozenClock
from tests.servers.random_calls import operation, perform
from tests.servers.stores import Place

#: What depends on the database, or on when it was asked.
_ITS_OWN = {"size_bytes", "elapsed_ms"}


def comparable(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items() if key not in _ITS_OWN}
    if isinstance(value, (list, tuple)):
        return [comparable(item) for item in value]
    return value


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_same_answers(place: Place, tmp_path: Path, seed: int, long_run: bool) -> None:
    chance = random.Random(seed)
    clock = FrozenClock()
    with (
        SessionDB(tmp_path / "state.db", clock=clock) as here,
        SessionDB.from_url(place.url(), clock=clock) as there,
    ):
        for db in (here, there):
            # A search reports messages it could not index while the background indexer was at work.
            db._background_indexer.stop()
        for number in range(3_000 if long_run else 250):
            call = operation(chance, here)
            expected = comparable(perform(here, call))
            assert comparable(perform(there, call)) == expected, f"call {number}: {call}"
            clock.advance(chance.choice([0.0, 0.001, 1.0, 60.0, 3_600.0]))
        assert comparable(there.export_all()) == comparable(here.export_all())
