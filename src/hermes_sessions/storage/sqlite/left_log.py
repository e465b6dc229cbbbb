"""A write-ahead log that lies where a store is made, and belongs to one that is not there any more.

Somebody has removed or moved a store without it. SQLite would delete it, and with it whatever was
written last and not yet copied back; so it gets another name.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

import apsw

from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

_FLAGS: Final = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE


def keep_left_log(real: str) -> str | None:
    """Give the log beside *real*, a file that this process has just created, another name; return
    that, or None when there is none, or somebody else was there first.
    """
    file = apsw.VFSFile("", real, [_FLAGS, 0])
    try:
        try:
            # Who opens the new file meanwhile waits: a log that is there after this is its own.
            file.xLock(apsw.SQLITE_LOCK_SHARED)
            file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
        except apsw.BusyError:
            return None
        return _set_aside(real)
    finally:
        with suppress(apsw.Error):
            file.xUnlock(apsw.SQLITE_LOCK_NONE)
        file.xClose()


def _set_aside(real: str) -> str | None:
    log = f"{real}-wal"
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    kept = f"{real}.left-{stamp}-wal"
    number = 1
    while os.path.lexists(kept):
        number += 1
        kept = f"{real}.left-{stamp}-{number}-wal"
    try:
        os.rename(log, kept)
    except FileNotFoundError:
        return None
    # Only an index of the log; whoever still reads the old store has it in memory.
    with suppress(FileNotFoundError):
        os.unlink(f"{real}-shm")
    logger.warning(
        "%s was made anew; the write-ahead log of a store that was removed or moved is kept as %s. "
        "It belongs to that store: lay it beside it as NAME-wal before you open it.",
        real,
        kept,
    )
    return kept
