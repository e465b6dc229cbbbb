"""Sole use of a file: nobody else has it open, and nobody can come in.

A change of layout must not meet a program that still works with the old one. SQLite shows most of
them: whoever has a file with a write-ahead log open holds a lock on it, even when idle. In a file
with a rollback journal an idle program holds no lock; where the system tells which process has
which file open (Linux), it is found there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from hermes_sessions.errors import StoreLocked
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.connection import Deadline, Options, open_connection
from hermes_sessions.storage.sqlite.file_access import lock_holders, process_name
from hermes_sessions.storage.sqlite.gate import Gate

logger = Logger(__name__)

_PROCESSES: Final = Path("/proc")


@contextmanager
def sole_use(
    path: Path,
    options: Options,
    deadline: Deadline,
    *,
    gated: bool,
    still_needed: Callable[[apsw.Connection], bool],
) -> Iterator[apsw.Connection | None]:
    """Lend a connection that holds the file exclusively until the block ends.

    Meanwhile the file has a rollback journal, so it is complete without companions. Afterwards it
    has the kind of journal it had before. None is lent as soon as *still_needed* says no: another
    process may have done the work while this one waited.

    Raises:
        StoreLocked: others had the file open until the deadline; it was not changed.
    """
    gate = Gate(f"{path}.gate" if gated else None)
    try:
        gate.enter(deadline.at)
        taken = _wait_for_everybody_to_leave(path, options, deadline, still_needed)
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


def _wait_for_everybody_to_leave(
    path: Path,
    options: Options,
    deadline: Deadline,
    still_needed: Callable[[apsw.Connection], bool],
) -> tuple[apsw.Connection, bool] | None:
    attempt = 0
    while True:
        # Nothing is locked or held open between attempts: the others work on undisturbed, and
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
    # Keeps every lock from here on, so nobody gets between this statement and the next ones.
    connection.pragma("locking_mode", "EXCLUSIVE")
    connection.pragma("journal_mode", "delete")
    connection.execute("BEGIN EXCLUSIVE; COMMIT")


def _release(connection: apsw.Connection, *, had_log: bool) -> None:
    try:
        connection.pragma("locking_mode", "NORMAL")
        if had_log:
            connection.pragma("journal_mode", "wal")
    except apsw.Error as error:
        # Either kind of journal is right for every program that opens the file next.
        logger.debug("the journal stays a rollback journal: %s", error)
    finally:
        connection.close()


def _still_in_use(path: Path, holders: list[str], waited: float) -> StoreLocked:
    return StoreLocked(
        f"{path}: database is locked. It has the layout of an older Hermes and must be upgraded, "
        f"but {', '.join(holders) or 'another program'} still has it open. Waited {waited:g} s; "
        f"nothing was changed. End that program, then try again."
    )


def processes_with_write_access(path: Path) -> list[str]:
    """Return the other processes that have *path* open for writing, as far as the system tells.

    Nothing is opened, so no lock of this process can be lost.
    """
    return [process_name(pid) for pid in _writing(path)]


def writers_of_other_products(path: Path) -> list[str]:
    """Return those of them that do not use the SQLite library of this product."""
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
        return True  # It ended meanwhile, or cannot be told.
    return "apsw" in maps


def _has_write_access(process: str, target: os.stat_result) -> bool:
    # Texts, not paths: there are thousands of descriptors, and a path takes longer than its stat.
    try:
        descriptors = os.listdir(f"{process}/fd")
    except OSError:
        # Ended meanwhile, or somebody else's, who may not open our private file anyway.
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
