"""Indexes in the background: soon after messages were stored, when the process is idle.

The thread starts with the first message that is stored and ends with the handle. It waits until no
message has come for a moment, or until many have, and works in short steps; a search or `close`
does what is left.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import Final

from hermes_sessions.errors import HermesSessionsError

logger = logging.getLogger(__name__)

#: Seconds without a new message after which the process counts as idle.
IDLE: Final = 0.2
#: Messages after which work begins even if more keep coming.
MANY: Final = 500


class Keeper:
    """A thread that calls *work* when there is something to index."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._changed = threading.Condition()
        self._waiting = 0
        self._stopping = False
        self._thread: threading.Thread | None = None
        _forking.watch(self)

    def notice(self, messages: int) -> None:
        """Say that messages were stored."""
        with self._changed:
            self._waiting += messages
            if self._thread is None and not self._stopping:
                self._start()
            elif self._waiting == messages or self._waiting >= MANY:
                self._changed.notify()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="hermes-sessions-index", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The message is stored; a search indexes it as well.
            logger.info("no thread for the search index: %s", error)
            return
        self._thread = thread

    def stop(self) -> bool:
        """End the thread; return whether something is left to be done."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
            thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        return self._waiting > 0

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._stopping:
                    self._changed.wait()
                self._wait_for_a_pause()
                if self._stopping:
                    return
                self._waiting = 0
            try:
                self._work()
            except HermesSessionsError as error:
                # Nothing is lost: the messages are stored, a search will find them.
                logger.info("the search index could not be updated now: %s", error)

    def _wait_for_a_pause(self) -> None:
        while not self._stopping and self._waiting < MANY:
            before = self._waiting
            self._changed.wait(IDLE)
            if self._waiting == before:
                return

    # ── fork: threads do not survive it ───────────────────────────────────────────────────────

    def pause(self) -> None:
        """Stop before a fork; the next message starts a new thread."""
        self.stop()
        self._stopping = False


class _Forking:
    """Pauses every keeper before a fork.

    Registered with the first keeper, that is after the database's own precautions: hooks run in
    reverse order, and a keeper must come to rest before the database is locked for the fork.
    """

    def __init__(self) -> None:
        self._keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()
        self._registered = False

    def watch(self, keeper: Keeper) -> None:
        self._keepers.add(keeper)
        if not self._registered and hasattr(os, "register_at_fork"):
            self._registered = True
            os.register_at_fork(before=self._pause_all)

    def _pause_all(self) -> None:
        for keeper in list(self._keepers):
            keeper.pause()


_forking: Final = _Forking()
