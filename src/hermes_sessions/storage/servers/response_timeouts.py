"""How long a server may leave a question unanswered, counted on this side.

A server's own limits do not help when it is frozen, and the network does not notice: the system
goes on to take what is sent to it. So every wait ends here as well. A commit may wait as long as a
write waits for others (``lock_timeout``). A statement may work as long as ``statement_timeout``
allows; if nothing is heard for ``lock_timeout`` seconds, the server is asked on another connection
whether it lives, and is given up if that gets no answer either.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from hermes_sessions.storage.servers.driver import MOST_SECONDS, ServerOptions


class Keepalive(NamedTuple):
    """When the system asks whether the other end is there: seconds of rest, seconds between two
    questions, and how many stay unanswered.
    """

    idle: int
    interval: int
    probes: int


#: Seconds beyond the server's own limit, so that what it says about that arrives first.
_GRACE: Final = 2.0
#: Seconds for a statement that the server itself would not stop: far above what one takes.
_UNSTOPPED_SECONDS: Final = 600.0
#: Seconds for a new connection, at least and at most; all hosts of a cluster share them.
_CONNECT_SECONDS: Final = (5.0, 10.0)
#: Seconds to answer one that only asks whether the server lives.
_PROBE_SECONDS: Final = (2.0, 5.0)
#: Seconds after which the system calls a connection dead whose other end is gone; how it finds out.
LOST_AFTER_SECONDS: Final = 30
KEEPALIVE: Final = Keepalive(idle=15, interval=5, probes=3)
#: Seconds to wait for another process that changes the tables, and perhaps backs them up first.
MIGRATION_TURN_SECONDS: Final = 600
#: Seconds for one statement that changes the tables: of a large store, all rows may be written.
MIGRATION_SECONDS: Final = 4 * 3600


class ResponseTimeouts:
    """The limits of a store's waits, in seconds."""

    __slots__ = ("commit", "connect", "probe", "probe_after", "seconds_left", "statement")

    def __init__(self, options: ServerOptions, *, stops_writes: bool = True) -> None:
        """*stops_writes*: whether every server stops what writes for longer than allowed, too."""
        self.commit = options.lock_timeout + _GRACE
        self.statement = (options.statement_timeout or MOST_SECONDS) + _GRACE
        if not stops_writes:
            self.statement = max(_UNSTOPPED_SECONDS, self.statement)
        self.probe_after = options.lock_timeout
        self.probe = _within(_PROBE_SECONDS, options.lock_timeout)
        self.connect = _within(_CONNECT_SECONDS, options.lock_timeout)
        self.seconds_left = options.seconds_left


def _within(limits: tuple[float, float], seconds: float) -> float:
    least, most = limits
    return max(least, min(most, seconds))


class ResponseWait:
    """One wait for an answer. *is_alive* asks the server on another connection; None where that is
    not possible.
    """

    __slots__ = ("_is_alive", "_limits", "_probe_at", "_seconds", "_until")

    def __init__(
        self, limits: ResponseTimeouts, seconds: float, is_alive: Callable[[], bool] | None = None
    ) -> None:
        self._limits = limits
        self._seconds = seconds
        self._is_alive = is_alive
        self.heard()

    def heard(self) -> None:
        """Begin to count again: something was sent or arrived."""
        now = time.monotonic()
        self._until = now + self._seconds
        self._probe_at = now + self._limits.probe_after if self._is_alive else self._until

    def remaining(self) -> float:
        """Return for how many seconds to wait before the next `is_over`."""
        left = min(self._until, self._probe_at) - time.monotonic()
        if self._limits.seconds_left is not None:
            left = min(left, self._limits.seconds_left())
        return max(left, 0.01)

    def is_over(self) -> bool:
        """Whether to give the connection up; may ask the server whether it lives."""
        if self._limits.seconds_left is not None and self._limits.seconds_left() <= 0:
            return True
        now = time.monotonic()
        if now >= self._until:
            return True
        if self._is_alive is None or now < self._probe_at:
            return False
        if not self._is_alive():
            return True
        self._probe_at = time.monotonic() + self._limits.probe_after
        return False

    @property
    def complaint(self) -> str:
        """What to say when it is over."""
        return "the server took what was sent and did not answer in time"
