"""The fixtures of the kit, all made from the one that the author of a provider supplies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions_testing.clock import FrozenClock

#: Opens a handle on the store under test; takes keyword arguments of `SessionDB`.
OpenStore = Callable[..., SessionDB]


@pytest.fixture
def clock() -> FrozenClock:
    """The clock of every handle of a test."""
    return FrozenClock()


@pytest.fixture
def open_another(open_store: OpenStore, clock: FrozenClock) -> Iterator[OpenStore]:
    """Opens one more handle on the store under test, closed when the test ends."""
    with ExitStack() as handles:

        def open_handle(**options: Any) -> SessionDB:
            return handles.enter_context(open_store(**({"clock": clock} | options)))

        yield open_handle


@pytest.fixture
def db(open_another: OpenStore) -> SessionDB:
    """A handle on an empty store."""
    return open_another()
