"""The package's loggers: those of `logging`, which is loaded when there is something to say.

Loading it takes longer than opening a store, and nearly every process has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: None where they are logged again.
_shown_by: list[Callable[[str], None] | None] = []


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
        if (show := _showing()) is not None:
            show(_text(message, values))
        else:
            self._log("WARNING", message, values)

    def _log(self, level: str, message: str, values: tuple[object, ...]) -> None:
        if _showing() is not None:
            return
        import logging

        logger = logging.getLogger(self._name)
        number = logging.getLevelNamesMapping()[level]
        if logger.isEnabledFor(number):
            # The place that counts is two calls away: whoever called debug, info or warning.
            logger.log(number, _text(message, values), stacklevel=3)


def _showing() -> Callable[[str], None] | None:
    return _shown_by[-1] if _shown_by else None


def _text(message: str, values: tuple[object, ...]) -> str:
    """Return what is to be said, so that it can be written to any file: names may hold anything."""
    text = message % values if values else message
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def where(error: BaseException) -> str:
    """Return the class of an error that nobody foresaw, and where it was raised. Its text may hold
    what somebody wrote, which no log is to hold.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return type(error).__name__
    code = last.tb_frame.f_code
    return f"{type(error).__name__} in {code.co_qualname}, {code.co_filename}:{last.tb_lineno}"


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


@contextmanager
def warnings_logged() -> Iterator[None]:
    """Log everything in the block after all: for a program that talks to people at first, and then
    runs for long and has a log.
    """
    _shown_by.append(None)
    try:
        yield
    finally:
        _shown_by.remove(None)
