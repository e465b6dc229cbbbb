"""Indexes in the background: soon after messages were stored, when the process is idle.

A thread starts when there is something to index. It waits until no message has come for a moment,
or until many have, works in short steps, and ends when nothing came for a while; so a handle that
nobody closes leaves no thread behind. A search or `close` does what is left.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

#: Seconds without a new message after which the process counts as idle.
IDLE: Final = 0.2
#: Messages after which work begins even if more keep coming.
MANY: Final = 2000
#: Seconds that the thread waits for more before it ends.
LINGER: Final = 2.0
#: Seconds that the end of the thread is waited for. It ends after the step it is at, a short one
#: unless the database does not answer.
LONGEST_STEP: Final = 30.0


class BackgroundIndexer:
    """Calls *work* in a thread of its own when there is something to index.

    *work* is given a function that says whether it is to stop: the handle is being closed, or the
    process forks.
    """

    def __init__(self, work: Callable[[Callable[[], bool]], None]) -> None:
        self._work = work
        # Ctrl-C may come inside the condition's own `with`, which is not a single step, and would
        # leave it locked. The lock's is.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        #: Messages that came since work last began.
        self._waiting = 0
        #: Whether work was not done to its end.
        self._unfinished = False
        self._stopping = False
        self._closed = False
        self._thread: threading.Thread | None = None
        _forking.watch(self)

    def notice(self, messages: int) -> None:
        """Say that messages were stored, changed or removed."""
        with self._lock:
            self._waiting += messages
            if self._thread is None or not self._thread.is_alive():
                self._start()
            elif self._waiting == messages or self._waiting >= MANY:
                self._changed.notify()

    def stop(self, seconds: float = LONGEST_STEP) -> bool:
        """End the thread for good, and wait for that for at most *seconds*; return whether there is
        something left to do that could be done now.
        """
        self._closed = True
        has_ended = self.pause(seconds)
        return has_ended and (self._unfinished or self._waiting > 0)

    def _start(self) -> None:
        if self._stopping or self._closed:
            return
        thread = threading.Thread(target=self._run, name="hermes-sessions-index", daemon=True)
        self._thread = thread
        try:
            thread.start()
        except RuntimeError as error:
            # The message is stored; a search indexes it as well.
            logger.info("no thread for the search index: %s", error)
            self._thread = None

    def _run(self) -> None:
        while self._wait_for_work():
            self._unfinished = True
            try:
                self._work(self._is_stopping)
            except HermesSessionsError as error:
                # Nothing is lost: the messages are stored, a search will find them.
                logger.info("the search index could not be updated now: %s", error)
            else:
                self._unfinished = self._stopping

    def _is_stopping(self) -> bool:
        return self._stopping

    def _wait_for_work(self) -> bool:
        """Wait for messages, and until no more come for a moment; return whether to go on."""
        with self._lock:
            self._changed.wait_for(lambda: self._waiting > 0 or self._stopping, LINGER)
            while not self._stopping and 0 < self._waiting < MANY:
                before = self._waiting
                self._changed.wait(IDLE)
                if self._waiting == before:
                    break
            if self._stopping or not self._waiting:
                # From here on, the next message starts another thread.
                self._thread = None
                return False
            self._waiting = 0
            return True

    # ── fork: threads do not survive it ───────────────────────────────────────────────────────

    def pause(self, seconds: float = LONGEST_STEP) -> bool:
        """End the thread; it has at most a few messages to finish. `resume` allows another.

        Returns whether it ended within *seconds*.
        """
        with self._lock:
            self._stopping = True
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(seconds)
            if thread.is_alive():
                logger.warning(
                    "the thread that updates the search index does not end within %g s; it is left "
                    "to itself",
                    seconds,
                )
                return False
        return True

    def resume(self) -> None:
        """Go on after `pause`, with a new thread if there is something to do."""
        with self._lock:
            self._stopping = False
            if self._waiting or self._unfinished:
                self._waiting = max(self._waiting, 1)
                self._start()

    def resume_in_child(self) -> None:
        """Go on in a forked process, where somebody who is not there may hold the lock."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread = None
        self._stopping = False


class _Forking:
    """Pauses every keeper around a fork.

    Registered with the first keeper, that is after the database's own precautions: hooks run in
    reverse order, and a keeper must come to rest before the database is locked for the fork.
    """

    def __init__(self) -> None:
        self._keepers: weakref.WeakSet[BackgroundIndexer] = weakref.WeakSet()
        self._registered = False

    def watch(self, indexer: BackgroundIndexer) -> None:
        self._keepers.add(indexer)
        if not self._registered and hasattr(os, "register_at_fork"):
            self._registered = True
            os.register_at_fork(
                before=lambda: self._tell(BackgroundIndexer.pause),
                after_in_parent=lambda: self._tell(BackgroundIndexer.resume),
                after_in_child=lambda: self._tell(BackgroundIndexer.resume_in_child),
            )

    def _tell(self, verb: Callable[[BackgroundIndexer], object]) -> None:
        for indexer in list(self._keepers):
            verb(indexer)


_forking: Final = _Forking()
