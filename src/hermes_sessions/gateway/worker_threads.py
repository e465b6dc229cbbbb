"""Threads that exist only while there is work.

The C library keeps the memory that a thread has freed as long as the thread lives. In a pool of
many idle threads this adds up over hours and looks like a leak; a thread that ends returns it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from hermes_sessions.storage.logs import Logger, where

logger = Logger(__name__)


class WorkerThreads:
    """Calls functions in threads, up to *at_once* in parallel, the rest in order. Thread-safe."""

    def __init__(self, at_once: int, *, name: str) -> None:
        self._at_once = at_once
        self._name = name
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], object]] = deque()
        self._threads = 0
        self._is_closed = False

    def call(self, do: Callable[[], object]) -> None:
        """Call a function soon. After `close`, nothing is called.

        Raises:
            RuntimeError: no thread is running, and the system cannot start one.
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
                # A running thread takes it.
                self._waiting.append(do)

    def close(self) -> None:
        """Call nothing more; running calls are not waited for."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()

    def _work(self, do: Callable[[], object] | None) -> None:
        while do is not None:
            try:
                do()
            except Exception as error:  # noqa: BLE001 - waiting calls must still run
                logger.warning("a thread failed unexpectedly: %s", where(error))
            do = self._next()

    def _next(self) -> Callable[[], object] | None:
        """Return the next function; None ends this thread."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            return None
