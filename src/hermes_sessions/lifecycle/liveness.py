"""Whether the silence of others means anything.

It does not when the clock was put forward, because the machine slept or somebody set it, nor when
the store was away: then everybody looks silent who had no chance to say anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hermes_sessions.errors import StoreError


class Liveness:
    """What one process knows about how it hears others, by a clock and by a stopwatch, which does
    not jump and stands still while a machine sleeps.
    """

    def __init__(
        self, clock: Callable[[], float], stopwatch: Callable[[], float], seconds: float
    ) -> None:
        """Others may be silent for *seconds*. Half of that is a disturbance, and for so long after
        one, silence means nothing.
        """
        self._clock = clock
        self._stopwatch = stopwatch
        self._seconds = seconds
        self._ahead = clock() - stopwatch()
        self._disturbed_at: float | None = None

    @contextmanager
    def timing_heartbeat(self) -> Iterator[None]:
        """Notice when what this process says of itself does not get through, or takes long."""
        began = self._stopwatch()
        try:
            yield
        except StoreError:
            self._disturbed_at = self._stopwatch()
            raise
        if self._stopwatch() - began > self._seconds / 2:
            self._disturbed_at = self._stopwatch()

    def can_trust_heartbeats(self) -> bool:
        """Tell whether nothing has disturbed it lately, as far as this was asked before that."""
        watch = self._stopwatch()
        before, self._ahead = self._ahead, self._clock() - watch
        if self._ahead - before > self._seconds / 2:
            self._disturbed_at = watch
        return self._disturbed_at is None or watch - self._disturbed_at >= self._seconds
