"""Whether the clock was put forward: the machine slept, or somebody set it.

Then everybody looks as if they had been silent for long, although they had no time to say anything.
"""

from __future__ import annotations

from collections.abc import Callable


class ClockJumps:
    """Compares a clock with a stopwatch, which does not jump and stands still while a machine
    sleeps.
    """

    def __init__(
        self, clock: Callable[[], float], stopwatch: Callable[[], float], seconds: float
    ) -> None:
        """A jump counts if it is longer than half of *seconds*, and is recent for *seconds*."""
        self._clock = clock
        self._stopwatch = stopwatch
        self._seconds = seconds
        self._ahead = clock() - stopwatch()
        self._jumped_at: float | None = None

    def is_recent(self) -> bool:
        """Tell whether the clock was put forward in the last *seconds* by the stopwatch, as far as
        this was asked before it was.
        """
        watch = self._stopwatch()
        before, self._ahead = self._ahead, self._clock() - watch
        if self._ahead - before > self._seconds / 2:
            self._jumped_at = watch
        return self._jumped_at is not None and watch - self._jumped_at < self._seconds
