"""Generates the titles of sessions in the background, so that no turn waits for them.

Titles are generated one after the other, and turns may end faster. So a session is queued once,
however many of its turns end, and the queue is limited: the next turn of a session that did not fit
asks again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

#: The most sessions in the queue.
MOST_WAITING: Final = 1_000


class TitleQueue:
    """Sessions that may need a title. Thread-safe."""

    def __init__(self, give: Callable[[str], object], *, most_waiting: int = MOST_WAITING) -> None:
        """*give* gives a session a title unless it has one; called in this object's thread."""
        self._give = give
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._is_closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="titles")

    def ask(self, session_id: str) -> bool:
        """Queue a session for a title; return whether it was added now."""
        with self._lock:
            is_full = len(self._waiting) >= self._most_waiting
            if self._is_closed or is_full or session_id in self._waiting:
                return False
            self._waiting.add(session_id)
            self._thread.submit(self._work, session_id)
        return True

    def close(self) -> None:
        """Stop; a title that is being generated is not waited for."""
        with self._lock:
            self._is_closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _work(self, session_id: str) -> None:
        # Turns that end from now on queue the session again.
        with self._lock:
            self._waiting.discard(session_id)
        try:
            self._give(session_id)
        except HermesSessionsError as error:
            logger.info("could not generate a title for session %s: %s", session_id, error)
