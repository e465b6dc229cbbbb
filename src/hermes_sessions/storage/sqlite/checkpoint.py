"""Keep the write-ahead log short without making writers wait.

A commit that leaves a long log wakes a thread, which copies the log back into the file on its own
connection. That alone does not restart the log: it restarts only when all of it is copied and no
reader needs it, and busy writers and readers never leave that moment. So the thread then takes a
turn like a writer and copies the short rest; the next commit restarts the log, unless a reader
still needs it. When the log is several times as long, the thread waits briefly for the readers. If
the thread does not get its turn in time, a commit does the same inline, which bounds the log.

A log that restarts early is written into space that the file already has. A disk makes that durable
in little more than half the time it takes to extend a file.

A long read keeps the log growing until it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

import apsw

from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.sqlite.connection import Deadline

logger = Logger(__name__)

#: Pages by which the log grows between two copies; pages at which the thread waits for readers;
#: pages at which a commit restarts the log inline.
WAKE_PAGES: Final = 1000
PATIENT_PAGES: Final = 4000
INLINE_PAGES: Final = 8000
#: How long writers wait for the last readers of a long log.
READER_PATIENCE: Final = 0.25

#: Takes a writer's turn; yields whether it got one before the callable cancelled the wait.
Turn = Callable[[Callable[[], bool]], AbstractContextManager[bool]]


class Checkpointer:
    """Background checkpoints of one engine; the thread starts with the first long log."""

    def __init__(
        self,
        connect: Callable[[Deadline], apsw.Connection],
        turn: Turn,
        is_current: Callable[[], bool],
    ) -> None:
        """*is_current* tells whether the open log is still the store's."""
        self._connect = connect
        self._turn = turn
        self._is_current = is_current
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._stopping = False
        #: Set by a holder of the write lock who copies the log itself.
        self.is_suspended = False
        self._pages = 0
        self._wake_at = WAKE_PAGES
        self._patient_at = PATIENT_PAGES
        self._inline_at = INLINE_PAGES

    def after_commit(self, connection: apsw.Connection, deadline: Deadline, pages: int) -> None:
        """Handle a log of *pages* pages after a commit on the writer *connection*.

        The commit has happened, so nothing here may raise: an error would deny it.
        """
        if pages < self._pages:  # The log has restarted.
            self._wake_at = WAKE_PAGES
            self._inline_at = INLINE_PAGES
        self._pages = pages
        if self.is_suspended or (pages >= self._wake_at and not self._is_current()):
            return
        if pages >= self._wake_at and not self._stopping:
            self._wake_thread()
        if pages >= self._inline_at:
            is_free = restart_wal(connection, deadline, apsw.SQLITE_CHECKPOINT_RESTART)
            # Not after every commit while a long read is running.
            self._inline_at = INLINE_PAGES if is_free else pages + PATIENT_PAGES

    def _wake_thread(self) -> None:
        self._wake.set()
        if self._thread is not None and self._thread.is_alive():
            return
        thread = threading.Thread(target=self._run, name="hermes-sessions-checkpoint", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # No thread is available, or the interpreter is shutting down.
            logger.debug("No thread for checkpoints: %s", error)
        else:
            self._thread = thread

    def stop(self, timeout: float | None = None) -> bool:
        """End the thread for good; return whether it ended within *timeout* seconds."""
        self._stopping = True
        self._wake.set()
        thread = self._thread
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self) -> None:
        deadline = Deadline()
        try:
            connection = self._connect(deadline)
        except apsw.Error as error:
            logger.warning("No connection for checkpoints: %s", error)
            return
        try:
            while True:
                self._wake.wait()
                self._wake.clear()
                if self._stopping:
                    return
                self._shorten(connection, deadline)
        finally:
            connection.close(True)

    def _shorten(self, connection: apsw.Connection, deadline: Deadline) -> None:
        if not self._is_current():
            return
        in_log = copy_wal(connection)
        self._wake_at = (self._pages if in_log is None else in_log) + WAKE_PAGES
        if in_log is None or in_log < WAKE_PAGES:
            return
        if in_log < PATIENT_PAGES:
            self._patient_at = PATIENT_PAGES
        with self._turn(lambda: self._stopping) as is_ours:
            # Another process may have done it during the wait.
            in_log = (copy_wal(connection) or 0) if is_ours else 0
            if in_log >= self._patient_at:
                self._free_log_patiently(connection, deadline)
            elif in_log >= WAKE_PAGES:
                restart_wal(connection, deadline, apsw.SQLITE_CHECKPOINT_RESTART, patience=0.0)

    def _free_log_patiently(self, connection: apsw.Connection, deadline: Deadline) -> None:
        if restart_wal(connection, deadline, apsw.SQLITE_CHECKPOINT_RESTART):
            self._patient_at = PATIENT_PAGES
        else:
            # A long read is running: do not make all writers wait for it again soon.
            self._patient_at = self._pages + PATIENT_PAGES


def copy_wal(connection: apsw.Connection) -> int | None:
    """Copy the pages that no reader needs; return the pages in the log, None on failure."""
    try:
        return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)[0]
    except (apsw.BusyError, apsw.LockedError):
        return None
    except apsw.Error as error:
        # The log still has every commit; the next checkpoint tries again.
        logger.warning("The write-ahead log could not be copied back: %s", error)
        return None


def restart_wal(
    connection: apsw.Connection, deadline: Deadline, mode: int, *, patience: float | None = None
) -> bool:
    """Copy the whole log, wait briefly for its last readers, and restart it.

    *deadline* is that of the connection. Returns whether no reader or checkpoint was in the way.
    """
    deadline.start(READER_PATIENCE if patience is None else patience)
    attempt = 0
    while True:
        try:
            connection.wal_checkpoint(mode=mode)
        except (apsw.BusyError, apsw.LockedError):
            # SQLite waits for readers by itself, but not for another checkpoint.
            if not deadline.wait_for_lock(attempt):
                return False
            attempt += 1
        except apsw.Error as error:
            logger.warning("The write-ahead log could not be copied back: %s", error)
            return False
        else:
            return True
