"""How a store is, in one value that every surface shows.

>>> worst([HEALTHY, Health(State.DEGRADED, "Two messages wait.")])
Health(state=<State.DEGRADED: 'degraded'>, why='Two messages wait.')
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from hermes_sessions.errors import (
    DiskFull,
    SchemaRefused,
    StoreError,
    StoreLocked,
    StoreReadOnly,
)


class State(Enum):
    """What can be done with a store, the best first."""

    #: Everything is read and written.
    HEALTHY = "healthy"
    #: Everything is read and written, and something is wrong that should be seen to.
    DEGRADED = "degraded"
    #: What is stored can be read; nothing new is stored now.
    READ_ONLY = "read-only"
    #: Nothing can be read or written now.
    DOWN = "down"


class Health(NamedTuple):
    """A state, and why it is no better; without secrets."""

    state: State
    why: str | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether there is nothing to be said."""
        return self.state is State.HEALTHY

    @property
    def takes_writes(self) -> bool:
        """Whether something new can be stored."""
        return self.state in (State.HEALTHY, State.DEGRADED)


HEALTHY: Final = Health(State.HEALTHY)
_ORDER: Final = tuple(State)
#: What can still be read after these.
_READABLE: Final = (StoreReadOnly, DiskFull, StoreLocked, SchemaRefused)


def worst(found: Iterable[Health]) -> Health:
    """Return the worst of them, the first of those that are equally bad; healthy without any."""
    return max(found, key=lambda each: _ORDER.index(each.state), default=HEALTHY)


def after(error: StoreError) -> Health:
    """Return how a store is that just failed so."""
    state = State.READ_ONLY if isinstance(error, _READABLE) else State.DOWN
    return Health(state, str(error))


class HealthWatch:
    """How a store is, as far as those saw it who use it in this process; thread-safe.

    Nothing is asked here: whoever writes says whether it worked.
    """

    def __init__(self, first: Health = HEALTHY) -> None:
        self._lock = threading.Lock()
        self._seen = first
        self._waiting = 0

    @property
    def now(self) -> Health:
        """How it is. While something waits to be stored, it is at best degraded."""
        with self._lock:
            if self._seen.is_healthy and self._waiting:
                return Health(State.DEGRADED, f"{self._waiting} waiting to be stored.")
            return self._seen

    def worked(self) -> None:
        """Note that something was stored."""
        with self._lock:
            self._seen = HEALTHY

    def failed(self, error: StoreError) -> None:
        """Note that something was not."""
        with self._lock:
            self._seen = after(error)

    def waits(self, number: int) -> None:
        """Note how much waits in a spool."""
        with self._lock:
            self._waiting = number
