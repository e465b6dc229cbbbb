"""The fairness gate: processes that write to one file take turns.

SQLite's own lock has no queue; under contention some writers wait a second while others pass them
repeatedly. The gate is a staircase of advisory byte locks on a separate file. A process that
arrives while others wait starts on the lowest step, moves up when the step above is free, and
enters from the highest, so no process is overtaken. Only this product takes part. SQLite's lock
still decides, so a missing or broken gate costs fairness, never safety.

A turn lasts a few milliseconds, not one transaction: a second write of the same process costs half
as much, because its pages are still cached. During its turn a process enters without queueing,
unless the first in line has used the gap.

The kernel releases the locks of a dead process. A stopped process keeps them, so every wait is
bounded: when it times out, the writer proceeds to SQLite's lock without a turn, and until the gate
works again it hardly waits there at all.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Final

try:
    import fcntl
except ImportError:  # Windows has no fcntl, so there is no gate.
    fcntl = None  # type: ignore[assignment]

from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

#: Seconds that a writer waits in line, and how long after a wait that timed out.
PATIENCE: Final = 2.0
STUCK_GATE_TIMEOUT: Final = 0.1

#: Seconds that a turn lasts; on a slow or busy machine up to this many writes, within the longest
#: turn.
TURN: Final = 0.004
MAX_WRITES_PER_TURN: Final = 8
LONGEST_TURN: Final = 0.012

#: The byte of the process inside; the next bytes are the steps, the highest first. If more
#: processes wait than there are steps, the order of further arrivals is random.
_INSIDE: Final = 0
_STEPS: Final = 16
#: Seconds between two attempts: on the highest step, where a late attempt leaves the gate unused,
#: and on the others.
_NAP: Final = 0.0003
_NAP_BELOW: Final = 0.001
_UNSUPPORTED: Final = frozenset({errno.ENOLCK, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class WriterGate:
    """One process at the gate of one store; used under the engine's write lock."""

    def __init__(self, path: str | None) -> None:
        """*path* is the gate's own file; without it, or without byte locks, there is no gate."""
        self._path = path if fcntl is not None else None
        self._fd: int | None = None
        self._stuck = False
        self._turn_began = -LONGEST_TURN
        self._writes = 0

    def enter(self, deadline: float) -> bool:
        """Wait for a turn until *deadline* (monotonic); return whether it got one.

        Always call `leave` afterwards, even if this was interrupted.
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
            logger.debug("The gate %s did not open within %g s", self._path, patience)
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
        """Let others in, if this process is inside. Its turn may last longer."""
        if self._fd is None:
            return
        try:
            _unlock(self._fd, _INSIDE)
        except OSError as error:
            # Closing the file also releases its locks.
            self._give_up(error)

    def is_crowded(self) -> bool:
        """Whether other processes are inside or in line; only call it from outside."""
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
        """Close the gate's file. Record locks belong to the process, so a child that closes an
        inherited descriptor does not affect its parent.
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
        say("Writers do not take turns on this store: %s", error)
        self.close()
        self._path = None


def _climb(fd: int, deadline: float) -> bool:
    """Climb the steps and enter; return whether that succeeded before *deadline*."""
    try:
        step = _STEPS + 1
        if _lock(fd, 1, _STEPS):
            # The line is empty, and usually the gate is free.
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
