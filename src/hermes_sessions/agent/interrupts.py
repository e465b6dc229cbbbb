"""Interrupting a turn from another thread, also while it waits for a model that says nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class Interrupt(threading.Event):
    """An event that, when it is set, also ends what is going on at that moment.

    A plain event does the same between two pieces of an answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._endings: list[Callable[[], None]] = []

    def set(self) -> None:
        """Interrupt; a second call does nothing more."""
        super().set()
        with self._guard:
            endings = list(self._endings)
        for end in endings:
            _end(end)

    @contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Have *end* called by whoever interrupts within the block, or now if that was before."""
        with self._guard:
            self._endings.append(end)
        try:
            if self.is_set():
                _end(end)
            yield
        finally:
            with self._guard:
                self._endings.remove(end)


def _end(end: Callable[[], None]) -> None:
    # What a generator says that is at work in another thread: it notices between two pieces.
    with suppress(ValueError):
        end()


@contextmanager
def closing_on_interrupt(interrupt: threading.Event | None, events: object) -> Iterator[None]:
    """Close *events* when *interrupt* is set within the block, and at its end."""
    close: Callable[[], None] = getattr(events, "close", lambda: None)
    try:
        if isinstance(interrupt, Interrupt):
            with interrupt.ending(close):
                yield
        else:
            yield
    finally:
        close()
