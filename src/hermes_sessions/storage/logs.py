"""The package's loggers: those of `logging`, which is loaded when there is something to say.

Loading it takes longer than opening a store, and nearly every process has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_shown_by: list[Callable[[str], None]] = []


class Logger:
    """The logger of this name, as far as the package needs it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, message: str, *values: object) -> None:
        """Log what only helps to understand what the package does."""
        self._log("DEBUG", message, values)

    def info(self, message: str, *values: object) -> None:
        """Log something unusual that took care of itself."""
        self._log("INFO", message, values)

    def warning(self, message: str, *values: object) -> None:
        """Log what somebody should know, or show it, inside `warnings_shown_by`."""
        if _shown_by:
            _shown_by[-1](message % values if values else message)
        else:
            self._log("WARNING", message, values)

    def _log(self, level: str, message: str, values: tuple[object, ...]) -> None:
        if _shown_by:
            return
        import logging

        logger = logging.getLogger(self._name)
        # The place that counts is two calls away: whoever called debug, info or warning.
        logger.log(logging.getLevelNamesMapping()[level], message, *values, stacklevel=3)


@contextmanager
def warnings_shown_by(show: Callable[[str], None]) -> Iterator[None]:
    """Give warnings to *show* inside the block instead of logging anything.

    For a program that talks to people, and whose process is its own.
    """
    _shown_by.append(show)
    try:
        yield
    finally:
        _shown_by.remove(show)
