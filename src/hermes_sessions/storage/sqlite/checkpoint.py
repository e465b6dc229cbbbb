"""Keeps the write-ahead log short without making a writer wait for it.

A commit that leaves a long log wakes a thread, which copies the log back into the file on a
connection of its own. While writers go on, that copy never quite catches up and the log would only
grow; so when it is still long afterwards, the thread takes a turn at the gate like a writer and
copies the short rest, after which the log starts over.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import apsw

logger = logging.getLogger(__name__)

#: Pages in the log that wake the thread, that make it take a turn, and that a commit copies
#: itself because no thread keeps up.
WAKE_PAGES: Final = 1000
TURN_PAGES: Final = 4000
INLINE_PAGES: Final = 32000


class Checkpointer:
    """The background checkpoints of one engine; the thread starts with the first long log."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        turn: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._connect = connect
        self._turn = turn
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._stopping = False

    def after_commit(self, connection: apsw.Connection, _database: str, pages: int) -> int:
        """Write-ahead hook of the writer connection: called after each commit."""
        if pages >= INLINE_PAGES:
            _copy_log(connection)
        elif pages >= WAKE_PAGES:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(
                    target=self._run, name="hermes-sessions-checkpoint", daemon=True
                )
                self._thread.start()
            self._wake.set()
        return apsw.SQLITE_OK

    def stop(self) -> None:
        """End the thread; the caller must not hold the engine's write lock."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        try:
            connection = self._connect()
        except apsw.Error as error:
            logger.warning("no connection for checkpoints: %s", error)
            return
        try:
            while True:
                self._wake.wait()
                self._wake.clear()
                if self._stopping:
                    return
                if self._copied_whole(_copy_log(connection)):
                    continue
                with self._turn():
                    _copy_log(connection)
        finally:
            connection.close()

    @staticmethod
    def _copied_whole(progress: tuple[int, int] | None) -> bool:
        if progress is None:
            return True  # Another process is at it.
        in_log, copied = progress
        return copied >= in_log or in_log < TURN_PAGES


def _copy_log(connection: apsw.Connection) -> tuple[int, int] | None:
    """Copy what no reader still needs; return (pages in the log, pages copied), None if busy."""
    try:
        return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except (apsw.BusyError, apsw.LockedError):
        return None
    except apsw.Error as error:
        # The log still holds every commit; the next checkpoint tries again.
        logger.warning("the write-ahead log could not be copied back: %s", error)
        return None
