"""Exclusive access to a file: no other program has it open, and none can open it.

A change of layout must not meet a program that still uses the old one. SQLite reveals most of them:
a connection to a file with a write-ahead log holds a lock on it, even when idle. With a rollback
journal an idle program holds no lock; Linux tells which process has which file open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw

from hermes_sessions.errors import StoreLocked, StoreReadOnly
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.connection import Deadline, SQLiteOptions, open_connection
from hermes_sessions.storage.sqlite.error_translation import translated
from hermes_sessions.storage.sqlite.file_access import lock_holders, process_name
from hermes_sessions.storage.sqlite.writer_gate import WriterGate

# Excluding other programs from a damaged file while it is copied and replaced.
#
# SQLite's own lock is taken on the file's bytes without reading them, so it works for any content.
# Connections to a store with a write-ahead log hold that lock too, even when idle.


try:
    import fcntl
except ImportError:  # Windows has no fcntl, so there are no turns.
    fcntl = None  # type: ignore[assignment]


_CHUNK: Final = 1024 * 1024
_SECTOR: Final = 4096


class LockedFile:
    """A file that no other program can use."""

    def __init__(self, path: Path, file: apsw.VFSFile) -> None:
        self.path = path
        self._file = file

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self._file.xFileSize()

    def copy_to(self, target: Path) -> int:
        """Write its bytes to a new private file; return how many bytes the disk could not read.

        Those are zeros in the copy. It is read through SQLite, because closing a descriptor of our
        own would drop the lock.
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
        """Refuse if another program has opened it since and is waiting.

        Raises:
            StoreLocked: names the program where the system tells.
        """
        if others := processes_with_write_access(self.path):
            raise _in_use(self.path, others)


@contextmanager
def lock_file(path: Path, patience: float, *, to_replace: bool) -> Iterator[LockedFile]:
    """Lend a file, with links resolved, that no other program has open until the block ends.

    A file that this user cannot write, and that is not *to_replace*, is protected from writes as
    far as possible.

    Raises:
        StoreLocked: others had it open for *patience* seconds; names them where the system tells.
        StoreReadOnly: it cannot be written.
    """
    deadline = Deadline()
    deadline.start(patience)
    gate = WriterGate(f"{path}.gate" if Path(f"{path}.gate").exists() else None)
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
    with translated(str(path)):
        file = apsw.VFSFile("", str(path), [flags, 0])
    try:
        is_ours_to_write = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
        if to_replace and not is_ours_to_write:
            raise StoreReadOnly(
                f"{path} cannot be written. Repair it as its owner, or recover what can be read to "
                f"another file with --to."
            )
        gate.enter(deadline.at)
        level = apsw.SQLITE_LOCK_EXCLUSIVE if is_ours_to_write else apsw.SQLITE_LOCK_SHARED
        with translated(str(path)):
            _lock(path, file, deadline, level)
        yield LockedFile(path, file)
    finally:
        file.xUnlock(apsw.SQLITE_LOCK_NONE)
        file.xClose()
        gate.leave()
        gate.close()


@contextmanager
def locked_if_unused(path: str, deadline: Deadline) -> Iterator[bool]:
    """Yield whether no connection, of this process or another, has a file with a log open.

    While that is true, none can read it. Concurrent callers take turns, because each would mistake
    the other's lock for that of a connection.
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
    """Exclude other callers until the block ends, as far as the system supports it.

    The log is locked, because SQLite holds no locks on it that closing it could drop.
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
            # A child forked meanwhile has it open, too.
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
            return  # This file system does not support such locks.
        else:
            return


def _is_locked(file: apsw.VFSFile, deadline: Deadline) -> bool:
    """Lock a file that no program has open; return whether that was possible."""
    attempt = 0
    while True:
        try:
            file.xLock(apsw.SQLITE_LOCK_SHARED)
            break
        except apsw.BusyError:
            # A program that excludes even readers repairs, replaces or closes the file; its log is
            # unknown.
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
        f"{path} was not repaired: {who} has it open. Stop that program first, then try again; to "
        f"inspect the damage meanwhile: hermes repair --check-only"
    )


logger = Logger(__name__)

_PROCESSES: Final = Path("/proc")


@contextmanager
def exclusive_access(
    path: Path,
    options: SQLiteOptions,
    deadline: Deadline,
    *,
    gated: bool,
    still_needed: Callable[[apsw.Connection], bool],
) -> Iterator[apsw.Connection | None]:
    """Lend a connection that holds the file exclusively until the block ends.

    Meanwhile the file has a rollback journal, so it is complete without companion files. Afterwards
    it has its previous kind of journal. Yields None as soon as *still_needed* returns False:
    another process may have done the work during the wait.

    Raises:
        StoreLocked: others had the file open until the deadline; it was not changed.
    """
    gate = WriterGate(f"{path}.gate" if gated else None)
    try:
        gate.enter(deadline.at)
        taken = _wait_for_exclusive_access(path, options, deadline, still_needed)
        if taken is None:
            yield None
            return
        connection, had_log = taken
        try:
            yield connection
        finally:
            _release(connection, had_log=had_log)
    finally:
        gate.leave()
        gate.close()


def _wait_for_exclusive_access(
    path: Path,
    options: SQLiteOptions,
    deadline: Deadline,
    still_needed: Callable[[apsw.Connection], bool],
) -> tuple[apsw.Connection, bool] | None:
    attempt = 0
    while True:
        # Nothing is locked or held open between attempts: other programs continue undisturbed, and
        # several upgrading processes do not wait for each other's connections.
        connection = open_connection(str(path), options, deadline, query_only=False)
        openers: list[str] = []
        kept = False
        try:
            connection.set_busy_handler(None)
            if not still_needed(connection):
                return None
            openers = processes_with_write_access(path)
            had_log = connection.pragma("journal_mode") == "wal"
            if not openers:
                _take(connection)
                openers = processes_with_write_access(path)
                if not openers:
                    kept = True
                    return connection, had_log
                _release(connection, had_log=had_log)
        except apsw.BusyError:
            pass
        finally:
            if not kept:
                connection.close()
        if not deadline.wait_for_lock(attempt):
            raise _still_in_use(path, openers or lock_holders(path), options.lock_timeout)
        attempt += 1


def _take(connection: apsw.Connection) -> None:
    # Keeps every lock from here on, so that no program gets between this and the next statements.
    connection.pragma("locking_mode", "EXCLUSIVE")
    connection.pragma("journal_mode", "delete")
    connection.execute("BEGIN EXCLUSIVE; COMMIT")


def _release(connection: apsw.Connection, *, had_log: bool) -> None:
    try:
        connection.pragma("locking_mode", "NORMAL")
        if had_log:
            connection.pragma("journal_mode", "wal")
    except apsw.Error as error:
        # Either kind of journal works for the next program that opens the file.
        logger.debug("The journal stays a rollback journal: %s", error)
    finally:
        connection.close()


def _still_in_use(path: Path, holders: list[str], waited: float) -> StoreLocked:
    return StoreLocked(
        f"{path}: database is locked. It has the layout of an older Hermes and must be upgraded, "
        f"but {', '.join(holders) or 'another program'} still has it open. Waited {waited:g} s; "
        f"nothing was changed. Stop that program, then try again."
    )


def processes_with_write_access(path: Path) -> list[str]:
    """Return the other processes that have *path* open for writing, as far as the system tells.

    Opens nothing, so that no lock of this process is lost.
    """
    return [process_name(pid) for pid in _writing(path)]


def writers_of_other_products(path: Path) -> list[str]:
    """Return those of them that do not use this product's SQLite library."""
    return [process_name(pid) for pid in _writing(path) if not _uses_our_library(pid)]


def _writing(path: Path) -> list[int]:
    try:
        target = path.stat()
        pids = [int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdigit()]
    except OSError:
        return []
    me = os.getpid()
    return [
        pid
        for pid in sorted(pids)
        if pid != me and _has_write_access(f"{_PROCESSES}/{pid}", target)
    ]


def _uses_our_library(pid: int) -> bool:
    try:
        maps = (_PROCESSES / str(pid) / "maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True  # It has ended, or cannot be inspected.
    return "apsw" in maps


def _has_write_access(process: str, target: os.stat_result) -> bool:
    # Strings, not Path objects: there are thousands of descriptors, and a Path costs more than
    # stat.
    try:
        descriptors = os.listdir(f"{process}/fd")
    except OSError:
        # It has ended, or belongs to another user, who may not open our private file anyway.
        return False
    for descriptor in descriptors:
        try:
            facts = os.stat(f"{process}/fd/{descriptor}")
            if os.path.samestat(facts, target) and _is_writable(
                Path(process, "fdinfo", descriptor)
            ):
                return True
        except OSError:
            continue
    return False


def _is_writable(descriptor_facts: Path) -> bool:
    for line in descriptor_facts.read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == "flags":
            return int(value, 8) & os.O_ACCMODE != os.O_RDONLY
    return True
