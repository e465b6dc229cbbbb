"""Decides when a missed heartbeat counts, after clock jumps and outages.

It does not count after the clock jumped forward, because the machine slept or the clock was set,
nor after the store was unavailable: then other processes had no chance to send a heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hermes_sessions.errors import StoreError


class Liveness:
    """How reliably one process receives the heartbeats of others.

    It compares the clock with a monotonic stopwatch, which does not jump and stops while the
    machine sleeps.
    """

    def __init__(
        self, clock: Callable[[], float], stopwatch: Callable[[], float], seconds: float
    ) -> None:
        """A heartbeat is missed after *seconds*. A deviation of half of that is a disturbance, and
        for *seconds* after it missed heartbeats do not count.
        """
        self._clock = clock
        self._stopwatch = stopwatch
        self._seconds = seconds
        self._ahead = clock() - stopwatch()
        self._disturbed_at: float | None = None

    @contextmanager
    def timing_heartbeat(self) -> Iterator[None]:
        """Detect heartbeats of this process that fail or take long."""
        began = self._stopwatch()
        try:
            yield
        except StoreError:
            self._disturbed_at = self._stopwatch()
            raise
        if self._stopwatch() - began > self._seconds / 2:
            self._disturbed_at = self._stopwatch()

    def can_trust_heartbeats(self) -> bool:
        """Tell whether there was no recent disturbance; detects clock jumps since the last call."""
        watch = self._stopwatch()
        before, self._ahead = self._ahead, self._clock() - watch
        if self._ahead - before > self._seconds / 2:
            self._disturbed_at = watch
        return self._disturbed_at is None or watch - self._disturbed_at >= self._seconds
