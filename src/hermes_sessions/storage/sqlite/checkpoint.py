"""Keeps the write-ahead log short without making a writer wait for it.

A commit that leaves a long log wakes a thread, which copies the log back into the file on a
connection of its own. That alone does not end the log: it starts over only when all of it is copied
and no reader needs it, and busy writers and readers never leave such a moment. So the thread then
takes a turn like a writer and copies the short rest; the next commit starts the log over, unless
somebody reads. When the log has become several times as long, the thread waits a little for the
readers. Where it does not get its turn in time, a commit does the same by itself: that bounds the
log.

A log that starts over early is written into space that the file has already, which a disk makes
durable in little more than half the time that it takes to make a file longer.

A reader that stays longer keeps the log growing until it ends.
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

#: Pages by which the log grows between two copies; pages at which the thread waits for readers; and
#: pages at which a commit frees the log by itself.
WAKE_PAGES: Final = 1000
PATIENT_PAGES: Final = 4000
INLINE_PAGES: Final = 8000
#: How long writers are kept waiting for the last readers of a long log.
READER_PATIENCE: Final = 0.25

#: Lends a place among the writers, and says whether it got one before the callable said no.
Turn = Callable[[Callable[[], bool]], AbstractContextManager[bool]]


class Checkpointer:
    """The background checkpoints of one engine; the thread starts with the first long log."""

    def __init__(
        self,
        connect: Callable[[Deadline], apsw.Connection],
        turn: Turn,
        is_current: Callable[[], bool],
    ) -> None:
        """*is_current* says whether the log that connections have open is still the store's."""
        self._connect = connect
        self._turn = turn
        self._is_current = is_current
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._stopping = False
        #: Set by somebody with the write lock who copies the log himself.
        self.is_suspended = False
        self._pages = 0
        self._wake_at = WAKE_PAGES
        self._patient_at = PATIENT_PAGES
        self._inline_at = INLINE_PAGES

    def after_commit(self, connection: apsw.Connection, deadline: Deadline, pages: int) -> None:
        """Look after a log of that many pages, after a commit on the writer *connection*.

        The commit has happened: an error raised here would deny it.
        """
        if pages < self._pages:  # The log has started over.
            self._wake_at = WAKE_PAGES
            self._inline_at = INLINE_PAGES
        self._pages = pages
        if self.is_suspended or (pages >= self._wake_at and not self._is_current()):
            return
        if pages >= self._wake_at and not self._stopping:
            self._wake_thread()
        if pages >= self._inline_at:
            is_free = restart_wal(connection, deadline, apsw.SQLITE_CHECKPOINT_RESTART)
            # Not again for every commit, as long as somebody reads.
            self._inline_at = INLINE_PAGES if is_free else pages + PATIENT_PAGES

    def _wake_thread(self) -> None:
        self._wake.set()
        if self._thread is not None and self._thread.is_alive():
            return
        thread = threading.Thread(target=self._run, name="hermes-sessions-checkpoint", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The system gives no thread, or the interpreter is going down.
            logger.debug("no thread for checkpoints: %s", error)
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
            logger.warning("no connection for checkpoints: %s", error)
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
            # Another process may have done it while this one waited.
            in_log = (copy_wal(connection) or 0) if is_ours else 0
            if in_log >= self._patient_at:
                self._free_log_patiently(connection, deadline)
            elif in_log >= WAKE_PAGES:
                restart_wal(connection, deadline, apsw.SQLITE_CHECKPOINT_RESTART, patience=0.0)

    def _free_log_patiently(self, connection: apsw.Connection, deadline: Deadline) -> None:
        if restart_wal(connection, deadline, apsw.SQLITE_CHECKPOINT_RESTART):
            self._patient_at = PATIENT_PAGES
        else:
            # Somebody reads for long: do not ask all writers to wait for that again soon.
            self._patient_at = self._pages + PATIENT_PAGES


def copy_wal(connection: apsw.Connection) -> int | None:
    """Copy what no reader still needs; return the pages in the log, None when nothing was done."""
    try:
        return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)[0]
    except (apsw.BusyError, apsw.LockedError):
        return None
    except apsw.Error as error:
        # The log still holds every commit; the next checkpoint tries again.
        logger.warning("the write-ahead log could not be copied back: %s", error)
        return None


def restart_wal(
    connection: apsw.Connection, deadline: Deadline, mode: int, *, patience: float | None = None
) -> bool:
    """Copy the whole log, wait a little for its last readers, and let it start over.

    *deadline* is that of the connection; returns whether nobody was in the way.
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
            logger.warning("the write-ahead log could not be copied back: %s", error)
            return False
        else:
            return True
