"""A clock that moves only when a test moves it."""

from __future__ import annotations

from typing import Final

#: 2025-01-15 12:00:00 UTC; any moment would do.
NOON: Final = 1_736_942_400.0


class FrozenClock:
    """Seconds since the epoch, as `SessionDB` takes them: ``SessionDB(path, clock=FrozenClock())``.

    Time passes only through `advance` and `set`, so a test decides which of two things happened
    first, how long ago, or at the very same moment. It may also run backwards, as real clocks do.
    """

    def __init__(self, now: float = NOON) -> None:
        self._now = float(now)

    def __call__(self) -> float:
        """Return the current time, the same at every call."""
        return self._now

    def advance(self, seconds: float = 0, *, minutes: float = 0, days: float = 0) -> float:
        """Move by this much, backwards if negative, and return the new time."""
        return self.set(self._now + seconds + minutes * 60 + days * 86_400)

    def set(self, now: float) -> float:
        """Set the time and return it."""
        self._now = float(now)
        return self._now
