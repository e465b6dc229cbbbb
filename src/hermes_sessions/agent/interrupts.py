"""Interrupting a turn from another thread, even while the model sends nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class Interrupt(threading.Event):
    """An event that also stops the running call when it is set.

    A plain event is noticed between two pieces of an answer only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def set(self) -> None:
        """Interrupt; further calls have no effect."""
        super().set()
        with self._guard:
            callbacks = list(self._callbacks)
        for end in callbacks:
            _end(end)

    @contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Call *end* if the event is set during the block, or at once if it is set already."""
        with self._guard:
            self._callbacks.append(end)
        try:
            if self.is_set():
                _end(end)
            yield
        finally:
            with self._guard:
                self._callbacks.remove(end)


def _end(end: Callable[[], None]) -> None:
    # A generator that is running in another thread raises this; it sees the event itself.
    with suppress(ValueError):
        end()


@contextmanager
def closing_on_interrupt(interrupt: threading.Event | None, events: object) -> Iterator[None]:
    """Close *events* at the end of the block, or as soon as *interrupt* is set."""
    close: Callable[[], None] = getattr(events, "close", lambda: None)
    try:
        if isinstance(interrupt, Interrupt):
            with interrupt.ending(close):
                yield
        else:
            yield
    finally:
        close()
