from collections.abc import Callable, Iterator
from datetime import UTC
from functools import partial
from typing import Any

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.recall import session_search
from hermes_sessions_testing.clock import FrozenClock
from tests.recall.conversations import HOUR, MORNING

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(MORNING + 24 * HOUR)


@pytest.fixture
def db(clock: FrozenClock) -> Iterator[SessionDB]:
    with SessionDB(":memory:", clock=clock) as store:
        yield store


@pytest.fixture
def ask(db: SessionDB, clock: FrozenClock) -> Ask:
    """`session_search` on the store, with dates in UTC."""
    return partial(session_search, db, zone=UTC, clock=clock)
