"""The fairness gate: processes that write to one file take turns.

SQLite's own lock has no queue; under contention some writers wait a second while others pass them
again and again. The gate is a turnstile of two advisory byte locks on a file of its own: whoever
stands at the *next* byte enters the *main* byte as soon as it is free, and the process that just
left must stand in line again. Only programs of ours take part; SQLite's lock still decides, so a
missing or broken gate costs fairness, never safety.

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
PATIENCE_AT_A_STUCK_GATE: Final = 0.1

_MAIN: Final = 0
_NEXT: Final = 1
_UNSUPPORTED: Final = frozenset({errno.ENOLCK, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class Gate:
    """One process's place at the turnstile of one store; used under the engine's write lock."""

    def __init__(self, path: str | None) -> None:
        """*path* is the gate's own file; None, or a system without such locks, means no gate."""
        self._path = path if fcntl is not None else None
        self._fd: int | None = None
        self._stuck = False

    def enter(self, deadline: float) -> bool:
        """Wait for a turn until *deadline* (monotonic) at most; return whether one was got.

        Call `leave` afterwards in any case, also when this was interrupted.
        """
        fd = self._descriptor()
        if fd is None:
            return False
        patience = PATIENCE_AT_A_STUCK_GATE if self._stuck else PATIENCE
        deadline = min(deadline, time.monotonic() + patience)
        try:
            entered = self._pass(fd, deadline)
        except OSError as error:
            self._give_up(error)
            return False
        if not entered and not self._stuck:
            logger.debug("the gate %s did not open within %g s", self._path, patience)
        self._stuck = not entered
        return entered

    def _pass(self, fd: int, deadline: float) -> bool:
        try:
            return _lock(fd, _NEXT, deadline, longest_nap=0.002) and _lock(
                fd, _MAIN, deadline, longest_nap=0.0005
            )
        finally:
            fcntl.lockf(fd, fcntl.LOCK_UN, 1, _NEXT)

    def leave(self) -> None:
        """End the turn, if there is one."""
        if self._fd is None:
            return
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _MAIN)
        except OSError as error:
            # Closing the file drops its locks, too.
            self._give_up(error)

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


def _lock(fd: int, byte: int, deadline: float, *, longest_nap: float) -> bool:
    nap = 0.0001
    while True:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
        else:
            return True
        if time.monotonic() >= deadline:
            return False
        # Jitter keeps waiters from knocking in step; the nap grows so that many waiters do not
        # eat the processor the holder needs.
        import random  # Who never waits does not pay for it.

        time.sleep(nap * random.uniform(0.5, 1.5))  # noqa: S311 - no secret depends on it
        nap = min(nap * 1.5, longest_nap)
