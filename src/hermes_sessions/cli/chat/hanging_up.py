"""A chat whose terminal is closed, or that is told to end: what was said is kept."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class HungUp(SystemExit):
    """The process was told to end."""


@contextmanager
def unwinding_when_told_to_end() -> Iterator[None]:
    """Let SIGHUP and SIGTERM unwind the block once, instead of ending the process on the spot.

    Raises HungUp within the block, whose code is that of a process ended by the signal.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM)}

    def unwind(number: int, _frame: FrameType | None) -> None:
        # Whoever insists has to wait no longer.
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise HungUp(128 + number)

    for number, handler in before.items():
        # What somebody chose to ignore, as nohup does, stays ignored.
        if handler is not signal.SIG_IGN:
            signal.signal(number, unwind)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
