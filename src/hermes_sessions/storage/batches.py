"""Work in short steps, each in a transaction of its own, that ends even if others undo it.

What one step does, another program may take back before the next: a second writer, a trigger, a
log that was unlinked. So no loop waits for the work to be gone; each is bounded by how much there
was when it began.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.provider import Params, SessionDBProvider, WriteTransaction

logger = Logger(__name__)

#: Consecutive steps without effect, because another process was faster, after which work stops.
MAX_IDLE_STEPS: Final = 50
#: The most seconds for work that a caller requested and waits for.
MAX_WORK_SECONDS: Final = 4 * 3600.0


class StallDetector:
    """Decides whether to continue work that other processes can undo.

    Work proceeds in rounds: a round does as much as was *left* when it began, and less must be left
    after it than before. *seconds* bounds all rounds together.
    """

    def __init__(
        self, what: str, left: Callable[[], int], seconds: float = MAX_WORK_SECONDS
    ) -> None:
        self._what = what
        self._measure = left
        self._left: int | None = None
        self._until = time.monotonic() + seconds
        self._steps = self._done = self._idle = 0

    def goes_on(self, done: int) -> bool:
        """Note what a step did; return whether another makes sense, and say why if not."""
        self._steps += 1
        self._done += done
        self._idle = 0 if done else self._idle + 1
        if time.monotonic() >= self._until:
            logger.info("%s stopped for now: its time limit was reached", self._what)
            return False
        if self._left is None:
            # Most work is done after a step or two, and is not worth measuring.
            if self._steps > 1:
                self._left, self._done = self._measure(), 0
            return True
        if self._idle < MAX_IDLE_STEPS and self._done <= self._left:
            return True
        left = self._measure()
        if left and (left >= self._left or self._idle):
            logger.warning("%s", stuck_message(self._what, left))
            return False
        self._left, self._done, self._idle = left, 0, 0
        return True


def stuck_message(what: str, left: int) -> str:
    """Return what to say of work that others undo."""
    return (
        f"{what} stops: after as many steps as it needs, {left:,} are left. Another program undoes "
        f"the work, or is faster. Find out what else writes to the store, then try again"
    )


def run_in_batches(
    provider: SessionDBProvider,
    step: Callable[[WriteTransaction], int],
    what: str,
    left: tuple[str, Params],
    *,
    isolated: bool = True,
) -> int:
    """Run *step* in transactions until one does nothing, or `StallDetector` ends it.

    Returns how much was done.

    *left* is a query that counts what there is to do, in the unit that *step* returns.
    """

    def measure() -> int:
        with provider.read() as tx:
            return int((tx.one(*left) or (0,))[0])

    total = 0
    progress = StallDetector(what, measure)
    while done := provider.write(step, isolated=isolated):
        total += done
        if not progress.goes_on(done):
            break
    return total
