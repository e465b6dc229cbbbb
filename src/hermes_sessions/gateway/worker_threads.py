"""Threads that are there while there is something to do.

What a thread has freed, the C library keeps ready for it as long as it lives. In a pool of many
threads that wait, this adds up for hours, and looks like a leak; a thread that ends gives it back.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from hermes_sessions.storage.logs import Logger, where

logger = Logger(__name__)


class WorkerThreads:
    """Calls things in threads of its own, so many at once and the others in order. Thread-safe."""

    def __init__(self, at_once: int, *, name: str) -> None:
        self._at_once = at_once
        self._name = name
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], object]] = deque()
        self._threads = 0
        self._is_closed = False

    def call(self, do: Callable[[], object]) -> None:
        """Call something soon. After `close`, nothing is called.

        Raises:
            RuntimeError: no thread is at work, and the system gives none.
        """
        with self._lock:
            if self._is_closed:
                return
            if self._threads >= self._at_once:
                self._waiting.append(do)
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, args=(do,), name=self._name).start()
        except RuntimeError:
            with self._lock:
                self._threads -= 1
                if not self._threads:
                    raise
                # Whoever is at work sees to it.
                self._waiting.append(do)

    def close(self) -> None:
        """Call nothing more; what runs is not waited for."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()

    def _work(self, do: Callable[[], object] | None) -> None:
        while do is not None:
            try:
                do()
            except Exception as error:  # noqa: BLE001 - what waits has to be done, whatever failed
                logger.warning("a thread failed unexpectedly: %s", where(error))
            do = self._next()

    def _next(self) -> Callable[[], object] | None:
        """Return what is to be done next; None: nothing, and this thread ends."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None
