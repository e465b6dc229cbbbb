"""Index new messages in the background, soon after they were stored, when the process is idle.

A thread starts when there is something to index. It waits until no message has arrived for a
moment, or until many have, works in short steps, and ends after a while without messages. So a
handle that is never closed leaves no thread behind. A search or `close` does the remaining work.
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
IDLE_SECONDS: Final = 0.2
#: The number of waiting messages at which work begins even if more keep arriving.
MAX_WAITING: Final = 2000
#: Seconds that the thread waits for more messages before it ends.
LINGER_SECONDS: Final = 2.0
#: Seconds to wait for the thread to end. It ends after its current step, which is short unless the
#: database does not answer.
MAX_STEP_SECONDS: Final = 30.0


class BackgroundIndexer:
    """Calls *work* in its own thread when there is something to index.

    *work* receives a function that returns whether it must stop, because the handle is being closed
    or the process forks.
    """

    def __init__(self, work: Callable[[Callable[[], bool]], None]) -> None:
        self._work = work
        # Use the lock in `with`, not the condition: entering a condition is not atomic, and Ctrl-C
        # in the middle would leave it locked.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        #: Messages that arrived since work last began.
        self._waiting = 0
        #: Whether the last work failed or was stopped.
        self._unfinished = False
        self._stopping = False
        self._closed = False
        self._thread: threading.Thread | None = None
        _fork_hooks.watch(self)

    def notify(self, messages: int) -> None:
        """Report that this many messages were stored, changed or removed."""
        with self._lock:
            self._waiting += messages
            if self._thread is None or not self._thread.is_alive():
                self._start()
            elif self._waiting == messages or self._waiting >= MAX_WAITING:
                self._changed.notify()

    def stop(self, seconds: float = MAX_STEP_SECONDS) -> bool:
        """End the thread permanently, and wait up to *seconds* for it to end.

        Returns whether the thread ended and left work that the caller can do now.
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
            # The messages are stored, and the next search indexes them.
            logger.info("could not start the thread that updates the search index: %s", error)
            self._thread = None

    def _run(self) -> None:
        while self._wait_for_work():
            self._unfinished = True
            try:
                self._work(self._is_stopping)
            except HermesSessionsError as error:
                # Nothing is lost: the messages are stored, and searches find them.
                logger.info("could not update the search index now: %s", error)
            else:
                self._unfinished = self._stopping

    def _is_stopping(self) -> bool:
        return self._stopping

    def _wait_for_work(self) -> bool:
        """Wait for messages, then until no more arrive for a moment; return whether to continue."""
        with self._lock:
            self._changed.wait_for(lambda: self._waiting > 0 or self._stopping, LINGER_SECONDS)
            while not self._stopping and 0 < self._waiting < MAX_WAITING:
                before = self._waiting
                self._changed.wait(IDLE_SECONDS)
                if self._waiting == before:
                    break
            if self._stopping or not self._waiting:
                # From here on, the next message starts another thread.
                self._thread = None
                return False
            self._waiting = 0
            return True

    # ── fork: threads do not exist in the child ───────────────────────────────────────────────

    def pause(self, seconds: float = MAX_STEP_SECONDS) -> bool:
        """End the thread after its current step; `resume` starts another one.

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
                    "the thread that updates the search index did not end within %g s; continuing "
                    "without waiting for it",
                    seconds,
                )
                return False
        return True

    def resume(self) -> None:
        """Continue after `pause`, with a new thread if there is something to do."""
        with self._lock:
            self._stopping = False
            if self._waiting or self._unfinished:
                self._waiting = max(self._waiting, 1)
                self._start()

    def resume_in_child(self) -> None:
        """Continue in a forked child, where a thread that no longer exists may hold the lock."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread = None
        self._stopping = False


class _ForkHooks:
    """Pauses every background indexer around a fork.

    Registered with the first indexer, after the hooks of the database: hooks run in reverse order,
    and an indexer must pause before the database is locked for the fork.
    """

    def __init__(self) -> None:
        self._indexers: weakref.WeakSet[BackgroundIndexer] = weakref.WeakSet()
        self._registered = False

    def watch(self, indexer: BackgroundIndexer) -> None:
        self._indexers.add(indexer)
        if not self._registered and hasattr(os, "register_at_fork"):
            self._registered = True
            os.register_at_fork(
                before=lambda: self._call_all(BackgroundIndexer.pause),
                after_in_parent=lambda: self._call_all(BackgroundIndexer.resume),
                after_in_child=lambda: self._call_all(BackgroundIndexer.resume_in_child),
            )

    def _call_all(self, method: Callable[[BackgroundIndexer], object]) -> None:
        for indexer in list(self._indexers):
            method(indexer)


_fork_hooks: Final = _ForkHooks()
