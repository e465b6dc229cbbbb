"""Warnings of the library on standard error, one line each."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hermes_sessions.cli.render.safety import one_line

if TYPE_CHECKING:
    from hermes_sessions.cli.console import Console


class WarningLines(logging.Handler):
    """Shows what the package logs as a warning or worse. Use it in a ``with`` block."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message of *record*, without the place in the code it came from."""
        self._console.tell(f"Warning: {one_line(record.getMessage())}")

    def __enter__(self) -> WarningLines:
        logging.getLogger("hermes_sessions").addHandler(self)
        return self

    def __exit__(self, *_exc: object) -> None:
        logging.getLogger("hermes_sessions").removeHandler(self)
