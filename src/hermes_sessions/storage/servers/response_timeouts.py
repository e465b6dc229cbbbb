"""Limits for the response times of a server, enforced by the client.

A server's own limits do not help when it is frozen, and the network does not notice: the system
continues to accept what is sent to it. So every wait ends here as well. A commit may wait as long
as a write waits for others (``lock_timeout``). A statement may work as long as
``statement_timeout`` allows; if nothing is heard for about ``lock_timeout`` seconds, the server is
asked on another connection whether it lives, and is given up if that gets no answer either. Where
other nodes could answer, it is asked after a few seconds, during a commit as well.

`time_limit` bounds all waits of a block, for callers that can continue without an answer.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple

from hermes_sessions.storage.servers.driver import MOST_SECONDS, ServerOptions


class Keepalive(NamedTuple):
    """TCP keepalive: seconds of idle time before the first probe, seconds between two probes, and
    the number of unanswered ones.
    """

    idle: int
    interval: int
    probes: int


#: Seconds beyond the server's own limit, so that its error arrives first.
_GRACE: Final = 2.0
#: Seconds for a statement that the server would not stop: far more than one takes.
_UNSTOPPED_SECONDS: Final = 600.0
#: Seconds for a new connection, at least and at most; all hosts of a cluster share them.
_CONNECT_SECONDS: Final = (5.0, 10.0)
#: Seconds for the response to a liveness check.
_PROBE_SECONDS: Final = (2.0, 5.0)
#: Seconds of silence after which a node of a cluster is checked; another one may answer by then.
_NODE_SILENCE_SECONDS: Final = (0.5, 5.0)
#: Seconds for each attempt to find out whether a commit without a response happened.
RESOLVE_SECONDS: Final = 5.0
#: Seconds after which the system closes a connection to a machine that is down, and its probes.
LOST_AFTER_SECONDS: Final = 30
KEEPALIVE: Final = Keepalive(idle=15, interval=5, probes=3)
#: Seconds to wait for another process that migrates the tables, and perhaps backs them up first.
MIGRATION_TURN_SECONDS: Final = 600
#: Seconds for one statement that changes the tables: of a large store, all rows may be written.
MIGRATION_SECONDS: Final = 4 * 3600


class _ThreadDeadline(threading.local):
    """The monotonic time at which the waits of the current thread end."""

    until: float = math.inf


_deadline: Final = _ThreadDeadline()


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit all waits of this thread in the block to *seconds* in total; an outer limit still
    applies.
    """
    before = _deadline.until
    _deadline.until = min(before, time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.until = before


class ResponseTimeouts:
    """The limits of a store's waits, in seconds."""

    __slots__ = (
        *("_left", "_probes_commits", "commit", "connect", "probe", "probe_after", "probe_again"),
        *("reach", "statement"),
    )

    def __init__(
        self, options: ServerOptions, *, stops_writes: bool = True, nodes: int = 1
    ) -> None:
        """*stops_writes*: whether the server also stops writing statements that take too long.
        *nodes*: how many servers could answer instead of one that does not.
        """
        self.commit = options.lock_timeout + _GRACE
        self.statement = (options.statement_timeout or MOST_SECONDS) + _GRACE
        if not stops_writes:
            self.statement = max(_UNSTOPPED_SECONDS, self.statement)
        self.probe = _within(_PROBE_SECONDS, options.lock_timeout)
        self.connect = _within(_CONNECT_SECONDS, options.lock_timeout)
        #: For a connection, free in the pool or new, with all attempts to get it.
        self.reach = max(options.lock_timeout, self.connect) + _GRACE
        self._probes_commits = nodes > 1
        # A server on its own is given up when a commit would be: nothing else could answer.
        self.probe_after = (
            _within(_NODE_SILENCE_SECONDS, options.lock_timeout / 2)
            if nodes > 1
            else self.commit - self.probe
        )
        self.probe_again = options.lock_timeout
        self._left = options.seconds_left

    def seconds_left(self) -> float:
        """Return how many seconds the current thread may still wait; infinite by default."""
        left = _deadline.until - time.monotonic()
        return left if self._left is None else min(left, self._left())

    def is_probed(self, seconds: float) -> bool:
        """Whether a wait that may take *seconds* includes liveness checks."""
        return seconds > self.commit or (self._probes_commits and seconds == self.commit)


def _within(limits: tuple[float, float], seconds: float) -> float:
    least, most = limits
    return max(least, min(most, seconds))


class LimitedStatements:
    """Limits how long each statement on a connection may take."""

    _limits: ResponseTimeouts
    #: The limit that applies now.
    _seconds: float

    @contextmanager
    def allowing(self, seconds: float) -> Iterator[None]:
        """Allow each statement in the block this number of seconds."""
        before, self._seconds = self._seconds, seconds
        try:
            yield
        finally:
            self._seconds = before

    def committing(self) -> AbstractContextManager[None]:
        """Apply the limit of a commit to the waits in the block."""
        return self.allowing(self._limits.commit)


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
        # Most commits are given up before a liveness check would end.
        self._is_alive = is_alive if limits.is_probed(seconds) else None
        self.heard()

    def heard(self) -> None:
        """Restart the count: data was sent or received."""
        now = time.monotonic()
        self._until = now + self._seconds
        self._probe_at = now + self._limits.probe_after if self._is_alive else self._until

    def remaining(self) -> float:
        """Return the seconds to wait before the next call of `is_over`."""
        left = min(self._until, self._probe_at) - time.monotonic()
        return max(min(left, self._limits.seconds_left()), 0.01)

    def is_over(self) -> bool:
        """Whether to give the connection up; may check whether the server is alive."""
        now = time.monotonic()
        if now >= self._until or self._limits.seconds_left() <= 0:
            return True
        if self._is_alive is None or now < self._probe_at:
            return False
        if not self._is_alive():
            return True
        self._probe_at = time.monotonic() + self._limits.probe_again
        return False

    @property
    def complaint(self) -> str:
        """The error message when the wait is over."""
        return "the server took what was sent and did not answer in time"
