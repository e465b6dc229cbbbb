"""Protect the log of an open store from removal by another SQLite library in this process.

The last connection that closes a file removes its log. SQLite detects other connections by locks on
the file, and these belong to the process: a second copy of SQLite in it does not see those of the
first, and when it closes the file, it drops them, so that other processes do not see them either.
Either way the log is removed under connections that keep writing into it.

The guard is a shared lock on the file that belongs to its own descriptor, at the position of
SQLite's readers. While it is held, no program is the last one.

It also tells whether another copy of SQLite has the store open: that copy's locks in the log's
index belong to the process, ours do not. While it has, this process must close neither its
connections nor the guard: closing any descriptor of a file drops the process's locks.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from typing import Final

import apsw

try:
    import fcntl
except ImportError:  # Windows has neither these locks nor this problem.
    fcntl = None  # type: ignore[assignment]

from hermes_sessions.storage.sqlite.connection import Deadline, connections_to
from hermes_sessions.storage.sqlite.file_access import locks_of_this_process
from hermes_sessions.storage.sqlite.ofd_locks import install

#: The lock range of SQLite's readers: 510 bytes, two bytes after the first gigabyte.
_FIRST: Final = 0x40000002
_COUNT: Final = 510
#: Descriptors of closed engines with open connections; each is closed after the last of them.
_left: deque[tuple[str, int]] = deque()


class WalGuard:
    """The lock of one engine on its file, if that has a log."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_held = False
        self._fd: int | None = None

    def hold(self, deadline: Deadline) -> None:
        """Take the lock unless it is held; no-op where such locks do not exist.

        Raises:
            apsw.BusyError: another program held an exclusive lock until the deadline.
            apsw.CantOpenError: no descriptor is available.
        """
        if not install():
            return
        if self._fd is None:
            try:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise apsw.CantOpenError(f"unable to open database file: {error}") from error
        attempt = 0
        while not _locked(self._fd):
            if not deadline.wait_for_lock(attempt):
                raise apsw.BusyError("database is locked")
            attempt += 1
        self.is_held = True

    def yield_lock(self) -> None:
        """Allow the last program that closes the file to remove its log."""
        self.is_held = False
        if self._fd is not None:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _request(fcntl.F_UNLCK))

    def close(self) -> None:
        """Close the descriptor once no connection of this process is left."""
        if self._fd is not None:
            _left.append((self.path, self._fd))
            self._fd = None
        _close_left()

    def forget(self) -> None:
        """Close the descriptor in a forked process; the lock is the parent's."""
        self.is_held = False
        if self._fd is not None:
            descriptor, self._fd = self._fd, None
            os.close(descriptor)


def has_neighbour(path: str) -> bool:
    """Return whether another copy of SQLite in this process has the store's log open.

    Always False where the locks of both look the same.
    """
    return install() and locks_of_this_process(f"{path}-shm")


def _locked(descriptor: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(fcntl.F_RDLCK))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _request(kind: int) -> bytes:
    # struct flock: l_type, l_whence, l_start, l_len, l_pid (0).
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, _FIRST, _COUNT, 0)


def _close_left() -> None:
    for _ in range(len(_left)):
        try:
            path, descriptor = _left.popleft()
        except IndexError:
            return  # Another thread closes them.
        if connections_to(path) or has_neighbour(path):
            _left.append((path, descriptor))
        else:
            os.close(descriptor)
