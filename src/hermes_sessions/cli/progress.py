"""A progress bar for work that takes longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

#: Work that ends sooner shows no bar: a bar that flashes by tells nobody anything.
_PATIENCE = 1.0


class Progress:
    """A bar on standard error that appears after a second. Use it in a ``with`` block."""

    def __init__(
        self, label: str, total: int, *, visible: bool, stopwatch: Callable[[], float]
    ) -> None:
        self._label = label
        self._total = total
        self._visible = visible
        self._stopwatch = stopwatch
        self._started = stopwatch()
        self._done = 0
        self._bar: Any = None

    def advance(self, steps: int = 1) -> None:
        """Note that so many steps are done."""
        self._done += steps
        if not self._visible:
            return
        if self._bar is not None:
            self._bar.update(steps)
        elif self._stopwatch() - self._started >= _PATIENCE:
            self._bar = self._open_bar()

    def reach(self, done: int, total: int) -> None:
        """Note how much is done of how much there is, where that is known only on the way."""
        self._total = total
        if self._bar is not None:
            self._bar.length = total
        self.advance(done - self._done)

    def _open_bar(self) -> Any:
        import click

        bar = click.progressbar(length=max(self._total, 1), label=self._label, file=sys.stderr)
        bar.__enter__()
        bar.update(min(self._done, self._total))
        return bar

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)
