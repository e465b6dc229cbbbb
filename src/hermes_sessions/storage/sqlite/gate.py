"""The fairness gate: processes that write to one file take turns.

SQLite's own lock has no queue; under contention some writers wait a second while others pass them
again and again. The gate is a staircase of advisory byte locks on a file of its own: whoever comes
when others wait starts on the lowest step, goes up when the step above is free, and enters from the
highest, so nobody is passed. Only programs of ours take part; SQLite's lock still decides, so a
missing or broken gate costs fairness, never safety.

A turn lasts a few milliseconds, not one transaction: a process that has just written does so again
for half the price, because its pages and the processor's caches still hold what it needs. While its
turn lasts, it enters without standing in line, unless the first in line has used the gap.

The kernel drops the locks of a process that dies. A process that was stopped inside keeps them, so
every wait is bounded: when it runs out, the writer goes on to SQLite's lock without a turn, and
until the gate works again it hardly waits there at all.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Final

try:
    import fcntl
except ImportError:  # Windows has no fcntl: no gate there.
    fcntl = None  # type: ignore[assignment]

from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

#: Seconds a writer stands in line, and how long after it did so in vain.
PATIENCE: Final = 2.0
STUCK_GATE_TIMEOUT: Final = 0.1

#: Seconds that a turn lasts; on a slow or busy machine longer, for so many writes, but not longer
#: than that.
TURN: Final = 0.004
MAX_WRITES_PER_TURN: Final = 8
LONGEST_TURN: Final = 0.012

#: The byte of whoever is inside; below it are the steps, the highest first. Where more wait than
#: there are steps, the order of those who still come is left to chance.
_INSIDE: Final = 0
_STEPS: Final = 16
#: Seconds between two looks: on the highest step, where a late one leaves the gate unused, and on
#: the others.
_NAP: Final = 0.0003
_NAP_BELOW: Final = 0.001
_UNSUPPORTED: Final = frozenset({errno.ENOLCK, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class Gate:
    """One process's place at the gate of one store; used under the engine's write lock."""

    def __init__(self, path: str | None) -> None:
        """*path* is the gate's own file; None, or a system without such locks, means no gate."""
        self._path = path if fcntl is not None else None
        self._fd: int | None = None
        self._stuck = False
        self._turn_began = -LONGEST_TURN
        self._writes = 0

    def enter(self, deadline: float) -> bool:
        """Wait for a turn until *deadline* (monotonic) at most; return whether one was got.

        Call `leave` afterwards in any case, also when this was interrupted.
        """
        fd = self._descriptor()
        if fd is None:
            return False
        patience = STUCK_GATE_TIMEOUT if self._stuck else PATIENCE
        waited_in_vain = time.monotonic() + patience
        try:
            entered = self._pass(fd, min(deadline, waited_in_vain))
        except OSError as error:
            self._give_up(error)
            return False
        if entered:
            self._stuck = False
        elif not self._stuck and waited_in_vain <= deadline:
            logger.debug("the gate %s did not open within %g s", self._path, patience)
            self._stuck = True
        return entered

    def _pass(self, fd: int, deadline: float) -> bool:
        if self._has_turn() and _lock(fd, _INSIDE):
            self._writes += 1
            return True
        if not _climb(fd, deadline):
            return False
        self._turn_began = time.monotonic()
        self._writes = 1
        return True

    def _has_turn(self) -> bool:
        since = time.monotonic() - self._turn_began
        return since < (TURN if self._writes >= MAX_WRITES_PER_TURN else LONGEST_TURN)

    def leave(self) -> None:
        """Let others in, if this one is inside. Its turn may last longer."""
        if self._fd is None:
            return
        try:
            _unlock(self._fd, _INSIDE)
        except OSError as error:
            # Closing the file drops its locks, too.
            self._give_up(error)

    def is_crowded(self) -> bool:
        """Whether others are inside or in line; ask only from outside."""
        fd = self._descriptor()
        if fd is None:
            return False
        try:
            is_empty = _lock(fd, _INSIDE, 1 + _STEPS)
            _unlock(fd, _INSIDE, 1 + _STEPS)
        except OSError as error:
            self._give_up(error)
            return False
        return not is_empty

    def close(self) -> None:
        """Forget the gate's file. Record locks belong to the process, so a child that closes an
        inherited descriptor takes nothing from its parent.
        """
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _descriptor(self) -> int | None:
        if self._fd is None and self._path is not None:
            # A link could lead to the database, and closing that would drop SQLite's locks.
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            try:
                self._fd = os.open(self._path, flags, 0o600)
            except OSError as error:
                self._give_up(error)
        return self._fd

    def _give_up(self, error: OSError) -> None:
        say = logger.debug if error.errno in _UNSUPPORTED else logger.warning
        say("writers take no turns on this store: %s", error)
        self.close()
        self._path = None


def _climb(fd: int, deadline: float) -> bool:
    """Go up the steps and enter; return whether that was before *deadline*."""
    try:
        step = _STEPS + 1
        if _lock(fd, 1, _STEPS):
            # Nobody waits, and mostly nobody is inside.
            if _lock(fd, _INSIDE):
                return True
            step = 1
            _unlock(fd, 2, _STEPS - 1)
        for above in range(step - 1, _INSIDE - 1, -1):
            if not _wait_for(fd, above, deadline):
                return False
            _unlock(fd, above + 1)
        return True
    finally:
        _unlock(fd, 1, _STEPS)


def _wait_for(fd: int, byte: int, deadline: float) -> bool:
    nap = _NAP if byte == _INSIDE else _NAP_BELOW
    while not _lock(fd, byte):
        if time.monotonic() >= deadline:
            return False
        time.sleep(nap)
    return True


def _lock(fd: int, first: int, count: int = 1) -> bool:
    """Lock these bytes if all of them are free; return whether they were."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, count, first)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        return False
    return True


def _unlock(fd: int, first: int, count: int = 1) -> None:
    fcntl.lockf(fd, fcntl.LOCK_UN, count, first)
