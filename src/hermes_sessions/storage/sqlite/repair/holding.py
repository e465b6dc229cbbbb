"""Keeping everybody else from a damaged file while it is copied and replaced.

SQLite's own lock is taken on the file's bytes, without reading them: it works whatever the file
holds. Whoever has a store with a write-ahead log open holds that lock, too, even when idle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows has no fcntl: nobody takes turns there.
    fcntl = None  # type: ignore[assignment]

import apsw

from hermes_sessions.errors import StoreLocked, StoreReadOnly
from hermes_sessions.storage.sqlite.connection import Deadline
from hermes_sessions.storage.sqlite.error_translation import translated
from hermes_sessions.storage.sqlite.exclusive_access import processes_with_write_access
from hermes_sessions.storage.sqlite.file_access import lock_holders
from hermes_sessions.storage.sqlite.gate import Gate

_CHUNK: Final = 1024 * 1024
_SECTOR: Final = 4096


class HeldFile:
    """A file that nobody else can use."""

    def __init__(self, path: Path, file: apsw.VFSFile) -> None:
        self.path = path
        self._file = file

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self._file.xFileSize()

    def copy_to(self, target: Path) -> int:
        """Write its bytes to a new private file; return how many the disk could not read. They
        are zeros in the copy.

        It is read through SQLite: closing a descriptor of our own would drop the lock.
        """
        lost = 0
        length = self.size
        descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as copy:
            for offset in range(0, length, _CHUNK):
                wanted = min(_CHUNK, length - offset)
                try:
                    copy.write(self._file.xRead(wanted, offset))
                except apsw.IOError:
                    for start in range(offset, offset + wanted, _SECTOR):
                        part = min(_SECTOR, offset + wanted - start)
                        try:
                            copy.write(self._file.xRead(part, start))
                        except apsw.IOError:
                            copy.write(bytes(part))
                            lost += part
            copy.flush()
            os.fsync(copy.fileno())
        return lost

    def require_alone(self) -> None:
        """Refuse to go on when somebody has opened it since, and waits.

        Raises:
            StoreLocked: who, where the system tells.
        """
        if others := processes_with_write_access(self.path):
            raise _in_use(self.path, others)


@contextmanager
def held(path: Path, patience: float, *, to_replace: bool) -> Iterator[HeldFile]:
    """Lend a file, whose links have been followed, that nobody else has open until the block ends.

    One that this user cannot write, and that is not *to_replace*, is kept from being written as
    far as that is possible.

    Raises:
        StoreLocked: others had it open for that many seconds; names them where the system tells.
        StoreReadOnly: it cannot be written.
    """
    deadline = Deadline()
    deadline.start(patience)
    gate = Gate(f"{path}.gate" if Path(f"{path}.gate").exists() else None)
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
    with translated(str(path)):
        file = apsw.VFSFile("", str(path), [flags, 0])
    try:
        is_ours_to_write = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        if to_replace and not is_ours_to_write:
            raise StoreReadOnly(
                f"{path} cannot be written. Repair it as its owner, or save what can be read to "
                f"another place with --to."
            )
        gate.enter(deadline.at)
        level = apsw.SQLITE_LOCK_EXCLUSIVE if is_ours_to_write else apsw.SQLITE_LOCK_SHARED
        with translated(str(path)):
            _lock(path, file, deadline, level)
        yield HeldFile(path, file)
    finally:
        file.xUnlock(apsw.SQLITE_LOCK_NONE)
        file.xClose()
        gate.leave()
        gate.close()


@contextmanager
def held_by_nobody(path: str, deadline: Deadline) -> Iterator[bool]:
    """Lend the answer to whether no connection, of this process or another, has a file with a log
    open. While it is yes, none can read it.

    Those who ask take turns: each would take the other's lock for that of a connection.
    """
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
    with _turn(f"{path}-wal", deadline):
        try:
            file = apsw.VFSFile("", path, [flags, 0])
        except apsw.Error:
            yield False
            return
        try:
            yield _is_locked(file, deadline)
        finally:
            file.xUnlock(apsw.SQLITE_LOCK_NONE)
            file.xClose()


@contextmanager
def _turn(log: str, deadline: Deadline) -> Iterator[None]:
    """Keep others who ask out, as far as the system can do that, until the block ends.

    The log is locked, in which SQLite has no locks of its own that closing it could drop.
    """
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        yield
        return
    try:
        _lock_log(descriptor, deadline)
        yield
    finally:
        if fcntl is not None:
            # A child that was forked meanwhile has it open, too.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _lock_log(descriptor: int, deadline: Deadline) -> None:
    attempt = 0
    while fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not deadline.wait_for_lock(attempt):
                return
            attempt += 1
        except OSError:
            return  # This file system knows no such locks.
        else:
            return


def _is_locked(file: apsw.VFSFile, deadline: Deadline) -> bool:
    """Lock a file that nobody has open; return whether that was possible."""
    attempt = 0
    while True:
        try:
            file.xLock(apsw.SQLITE_LOCK_SHARED)
            break
        except apsw.BusyError:
            # Who keeps even readers out repairs, replaces or closes it: nobody knows its log.
            if not deadline.wait_for_lock(attempt):
                return False
            attempt += 1
        except apsw.Error:
            return False
    try:
        file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
    except apsw.Error:
        return False
    return True


def _lock(path: Path, file: apsw.VFSFile, deadline: Deadline, level: int) -> None:
    attempt = 0
    while True:
        others = processes_with_write_access(path)
        if not others:
            try:
                file.xLock(apsw.SQLITE_LOCK_SHARED)
                if level != apsw.SQLITE_LOCK_SHARED:
                    file.xLock(level)
            except apsw.BusyError:
                others = lock_holders(path)
                file.xUnlock(apsw.SQLITE_LOCK_NONE)
            else:
                return
        if not deadline.wait_for_lock(attempt):
            raise _in_use(path, others)
        attempt += 1


def _in_use(path: Path, others: list[str]) -> StoreLocked:
    who = ", ".join(others) or "another program, or this one"
    return StoreLocked(
        f"{path} was not repaired: {who} has it open. End that first, then try again; what is "
        f"wrong can be looked at meanwhile with: hermes repair --check-only"
    )
