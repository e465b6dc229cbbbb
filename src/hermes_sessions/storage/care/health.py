"""How a store is, in one value that every surface shows.

>>> worst([HEALTHY, Health(State.DEGRADED, "Two messages wait.")])
Health(state=<State.DEGRADED: 'degraded'>, why='Two messages wait.')
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
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
    """The state of a store and the reason if it is not healthy, without secrets."""

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
    """The health of a store, as its users in this process reported it; thread-safe.

    It does not query the store: writers report whether a write succeeded.
    """

    def __init__(
        self,
        first: Health = HEALTHY,
        *,
        silent_after: float | None = None,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """Where it is written to regularly, *silent_after* are the seconds after which a store of
        which nothing was heard counts as down: the last write still waits for its answer.
        """
        self._lock = threading.Lock()
        self._seen = first
        self._silent_after = silent_after
        self._stopwatch = stopwatch
        self._seen_at = stopwatch()
        self._waiting = 0

    @property
    def now(self) -> Health:
        """How it is. While something waits to be stored, it is at best degraded."""
        with self._lock:
            age = self._stopwatch() - self._seen_at
            if self._silent_after is not None and age > self._silent_after:
                if self._seen.state is not State.DOWN:
                    return Health(State.DOWN, f"It has not answered for {age:.0f} s.")
            elif self._seen.is_healthy and self._waiting:
                return Health(State.DEGRADED, f"{self._waiting} waiting to be stored.")
            return self._seen

    @property
    def age(self) -> float:
        """Seconds since something was last stored, or was last known not to be."""
        with self._lock:
            return max(0.0, self._stopwatch() - self._seen_at)

    def worked(self) -> None:
        """Note that something was stored."""
        with self._lock:
            self._seen, self._seen_at = HEALTHY, self._stopwatch()

    def failed(self, error: StoreError) -> None:
        """Note that something was not."""
        with self._lock:
            self._seen, self._seen_at = after(error), self._stopwatch()

    def waits(self, number: int) -> None:
        """Note how much waits in a spool."""
        with self._lock:
            self._waiting = number
