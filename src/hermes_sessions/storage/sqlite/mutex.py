"""A lock between threads that outlives interrupts.

Ctrl-C raises an exception between any two steps of a program, also between taking a lock and
remembering to give it back. Such a lock would be taken for ever. Here the holder is an object that
lives as long as the work does: when the lock is taken and no such object has been seen for a while,
nobody is left to give it back, and the next thread that waits does so.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import Final

#: How long a lock stands without a holder before it counts as left behind, and how often that is
#: looked at. The holder is noted at once after the lock was taken.
_ABANDONED_AFTER: Final = 0.5
_GLANCE: Final = 0.05


class Turn:
    """One thread's use of a mutex; keep it in a local variable as long as the lock is needed."""

    __slots__ = ("__weakref__", "is_writing", "thread")

    def __init__(self, *, is_writing: bool = False) -> None:
        self.thread = threading.get_ident()
        self.is_writing = is_writing


class Mutex:
    """Excludes threads from each other; not reentrant."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: weakref.ref[Turn] | None = None
        self._times_taken = 0
        self._rescue = threading.Lock()
        #: Since when the lock has been seen taken without a holder, and how often it was taken then.
        self._suspicion: tuple[float, int] | None = None

    def acquire(self, turn: Turn, timeout: float) -> bool:
        """Wait for the lock; return whether *turn* has it now."""
        now = time.monotonic()
        until = now + timeout
        if not self._lock.acquire(blocking=False):
            while not self._lock.acquire(timeout=max(0.0, min(_GLANCE, until - now))):
                now = time.monotonic()
                if self._take_over(turn, now):
                    return True
                if now >= until:
                    return False
        self._note(turn)
        return True

    def _note(self, turn: Turn) -> None:
        self._holder = weakref.ref(turn)
        self._times_taken += 1
        self._suspicion = None

    def release(self, turn: Turn) -> None:
        """Give the lock back if *turn* has it."""
        if self.holder() is turn:
            self._holder = None
            self._lock.release()

    def holder(self) -> Turn | None:
        """Return who has the lock, None when nobody has or nobody is known."""
        holder = self._holder
        return None if holder is None else holder()

    def own_turn(self) -> Turn | None:
        """Return the turn of the calling thread, if it has the lock."""
        holder = self.holder()
        return holder if holder is not None and holder.thread == threading.get_ident() else None

    def _take_over(self, turn: Turn, now: float) -> bool:
        """Hand a lock that was left behind to *turn*; return whether that was done."""
        with self._rescue:
            if self.holder() is not None:
                self._suspicion = None
            elif self._suspicion is None or self._suspicion[1] != self._times_taken:
                self._suspicion = (now, self._times_taken)
            elif now - self._suspicion[0] >= _ABANDONED_AFTER:
                self._note(turn)
                return True
        return False
