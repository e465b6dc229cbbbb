"""Titles for sessions that have none, in the background: no turn waits for them.

Titles are given one after the other, and turns may end faster than that. So a session waits once,
however many of its turns end meanwhile, and not more than some wait at all: the next turn of a
session that was left out asks again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

#: Sessions that wait for a title.
MOST_WAITING: Final = 1_000


class TitleQueue:
    """Sessions that may need a title. Thread-safe."""

    def __init__(self, give: Callable[[str], object], *, most_waiting: int = MOST_WAITING) -> None:
        """*give* gives a session a title unless it has one; in a thread of this object's own."""
        self._give = give
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        self._is_closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="titles")

    def ask(self, session_id: str) -> bool:
        """Have a session get a title soon; return whether it was put in line for that now."""
        with self._lock:
            is_full = len(self._waiting) >= self._most_waiting
            if self._is_closed or is_full or session_id in self._waiting:
                return False
            self._waiting.add(session_id)
            self._thread.submit(self._work, session_id)
        return True

    def close(self) -> None:
        """Give no more titles; nobody waits for the one that is being thought of."""
        with self._lock:
            self._is_closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _work(self, session_id: str) -> None:
        # What ends from now on is not seen by this look.
        with self._lock:
            self._waiting.discard(session_id)
        try:
            self._give(session_id)
        except HermesSessionsError as error:
            logger.info("session %s got no title: %s", session_id, error)
