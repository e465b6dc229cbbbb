"""Standard-library logging that is loaded with the first record.

Importing `logging` takes longer than opening a store, and most processes never log. A `Logger` has
the methods of `logging.Logger` that this package uses; it hands the format and its arguments on as
they are, so handlers can group records by format. Modules that load `logging` anyway use
``logging.getLogger(__name__)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Where warnings go instead of the log; None where they are logged after all. The last one counts.
_shown_by: list[Callable[[str], None] | None] = []
_DEBUG, _INFO, _WARNING = 10, 20, 30  # logging.DEBUG and so on


class Logger:
    """A stand-in for ``logging.getLogger(name)``."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, message: str, *args: object) -> None:
        """Log what helps to understand how the package works."""
        self._log(_DEBUG, message, args)

    def info(self, message: str, *args: object) -> None:
        """Log something unusual that needs no action."""
        self._log(_INFO, message, args)

    def warning(self, message: str, *args: object) -> None:
        """Log what a user or operator should know; inside `warnings_shown_by`, show it instead."""
        if (show := _showing()) is not None:
            show(printable(message % args if args else message))
        else:
            self._log(_WARNING, message, args)

    def _log(self, level: int, message: str, args: tuple[object, ...]) -> None:
        if _showing() is not None:
            return
        import logging

        logger = logging.getLogger(self._name)
        if logger.isEnabledFor(level):
            # Two frames up is the caller of debug, info or warning.
            logger.log(level, printable(message), *map(_printable_argument, args), stacklevel=3)


class _Printable:
    """An argument whose text is made when a record is formatted, and can be written to any file."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return printable(str(self._value))

    def __repr__(self) -> str:
        return printable(repr(self._value))


def _printable_argument(value: object) -> object:
    """Return *value* so that formatting it gives printable text; numbers keep their formats."""
    is_printable = isinstance(value, int | float) or (isinstance(value, str) and value.isascii())
    return value if is_printable else _Printable(value)


def printable(text: str) -> str:
    """Return *text* with lone surrogates escaped: file names contain them, log files cannot."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _showing() -> Callable[[str], None] | None:
    return _shown_by[-1] if _shown_by else None


def where(error: BaseException) -> str:
    """Return the class of an unexpected error and where it was raised, without its text: that may
    contain what a user wrote, which must not reach a log.
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
    """Pass warnings to *show* inside the block instead of logging anything.

    For command-line programs, which own their process.
    """
    _shown_by.append(show)
    try:
        yield
    finally:
        _shown_by.remove(show)


@contextmanager
def warnings_logged() -> Iterator[None]:
    """Log again inside the block, for a command that becomes a long-running service with a log."""
    _shown_by.append(None)
    try:
        yield
    finally:
        _shown_by.remove(None)
