"""The fairness gate: processes that write to one file take turns.

SQLite's own lock has no queue; under contention some writers wait a second while others pass them
again and again. The gate is a turnstile of two advisory byte locks on a file of its own: whoever
stands at the *next* byte enters the *main* byte as soon as it is free, and the process that just
left must stand in line again. Only programs of ours take part; SQLite's lock still decides, so a
missing or broken gate costs fairness, never safety.

The kernel drops the locks of a process that dies. A wait is bounded: when it runs out, the writer
goes on to SQLite's lock without a turn.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import time
from typing import Final

try:
    import fcntl
except ImportError:  # Windows has no fcntl: no gate there.
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

_MAIN: Final = 0
_NEXT: Final = 1
_UNSUPPORTED: Final = frozenset({errno.ENOLCK, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class Gate:
    """One process's place at the turnstile of one store; used under the engine's write lock."""

    def __init__(self, path: str | None) -> None:
        """*path* is the gate's own file; None, or a system without such locks, means no gate."""
        self._path = path if fcntl is not None else None
        self._fd: int | None = None

    def enter(self, deadline: float) -> bool:
        """Wait for a turn until *deadline* (monotonic); return whether one was got."""
        fd = self._descriptor()
        if fd is None:
            return False
        try:
            if not self._lock(fd, _NEXT, deadline, longest_nap=0.002):
                return False
            try:
                return self._lock(fd, _MAIN, deadline, longest_nap=0.0005)
            finally:
                fcntl.lockf(fd, fcntl.LOCK_UN, 1, _NEXT)
        except OSError as error:
            self._give_up(error)
            return False

    def leave(self) -> None:
        """End the turn that `enter` gave."""
        if self._fd is not None:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _MAIN)

    def close(self) -> None:
        """Forget the gate's file. Record locks belong to the process, so a child that closes an
        inherited descriptor takes nothing from its parent.
        """
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _descriptor(self) -> int | None:
        if self._fd is None and self._path is not None:
            try:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                self._give_up(error)
        return self._fd

    @staticmethod
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
            # Jitter keeps waiters from knocking in step; the nap grows so that many waiters do
            # not eat the processor the holder needs.
            time.sleep(nap * random.uniform(0.5, 1.5))  # noqa: S311 - no secret depends on it
            nap = min(nap * 1.5, longest_nap)

    def _give_up(self, error: OSError) -> None:
        level = logging.DEBUG if error.errno in _UNSUPPORTED else logging.WARNING
        logger.log(level, "writers take no turns on this store: %s", error)
        self.close()
        self._path = None
