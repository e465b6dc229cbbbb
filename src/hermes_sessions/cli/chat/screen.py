"""A terminal on which an answer appears above the line that the user is typing.

Complete lines go to the terminal and its scrollback. The incomplete line is shown right above the
prompt and updated with every piece. Everything that any thread writes to standard output or
standard error meanwhile is shown in the same way.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from wcwidth import wcwidth

_STYLED: Final = re.compile(r"(\x1b\[[0-9;]*m)")
_RESET: Final = "\x1b[0m"


class Screen:
    """The terminal, shared by a prompt and other writers."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._lock = threading.RLock()
        self._unwritten = ""
        self._application: Any = None

    @property
    def unfinished(self) -> str:
        """The incomplete line."""
        with self._lock:
            return self._unwritten.rpartition("\n")[2]

    def write(self, text: str) -> None:
        """Show text now, or as soon as the prompt allows; thread-safe."""
        with self._lock:
            self._unwritten += text
        self.refresh()

    def refresh(self) -> None:
        """Show changes."""
        with self._lock:
            application = self._application
            if application is None:
                self._write_lines()
                return
            loop = application.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._refresh_beside, application)

    def write_above_prompt(self, lines: str) -> None:
        """Show complete lines above the incomplete line."""
        with self._lock:
            written, end, rest = self._unwritten.rpartition("\n")
            self._unwritten = f"{written}{end}{lines}{rest}"
        self.refresh()

    def finish_line(self) -> None:
        """End the incomplete line, if there is one."""
        if self.unfinished:
            self.write("\n")

    @contextmanager
    def beside(self, application: Any) -> Iterator[None]:
        """Let *application*, which owns the prompt, draw below the output."""
        with self._lock:
            self._application = application
        try:
            yield
        finally:
            with self._lock:
                self._application = None
            self.refresh()

    @contextmanager
    def captures_output(self) -> Iterator[None]:
        """Show everything that is written to the standard streams in the block."""
        streams = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = _Stream(self, self._terminal)
        try:
            yield
        finally:
            self.finish_line()
            sys.stdout, sys.stderr = streams

    def _refresh_beside(self, application: Any) -> None:
        """Refresh in the thread of the application."""
        if not application.is_running:
            return  # the rest is written when the prompt has ended
        if "\n" in self._unwritten:
            from prompt_toolkit.application import run_in_terminal

            run_in_terminal(self._write_lines)
        else:
            application.invalidate()

    def _write_lines(self) -> None:
        with self._lock:
            lines, end, rest = self._unwritten.rpartition("\n")
            self._unwritten = rest
            if end:
                self._terminal.write(lines + end)
                self._terminal.flush()


class _Stream:
    """A replacement of a standard stream. Lines of the thread that made it are shown separately."""

    def __init__(self, screen: Screen, terminal: TextIO) -> None:
        self._screen = screen
        self._terminal = terminal
        self._thread = threading.get_ident()
        self.encoding = terminal.encoding
        self.errors = terminal.errors

    def write(self, text: str) -> int:
        # Replies to a typed line must not appear in the middle of an answer.
        is_aside = threading.get_ident() == self._thread and text.endswith("\n")
        (self._screen.write_above_prompt if is_aside else self._screen.write)(text)
        return len(text)

    def flush(self) -> None:
        return

    def isatty(self) -> bool:
        return self._terminal.isatty()

    def fileno(self) -> int:
        return self._terminal.fileno()

    def writable(self) -> bool:
        return True


def rows(line: str, columns: int, most: int) -> list[str]:
    """Split a line into rows of *columns*; return the last *most* of them, with their colours."""
    line = line.expandtabs(4)
    if line.isascii() and "\x1b" not in line:
        # A paragraph grows by thousands of pieces; only the visible end is processed each time.
        first = max(0, -(-len(line) // columns) - most) * columns
        return [line[at : at + columns] for at in range(first, len(line), columns)]
    found: list[str] = []
    row, used, style = "", 0, ""
    for part in _STYLED.split(line):
        if _STYLED.fullmatch(part):
            row += part
            style = "" if part == _RESET else part
            continue
        for character in part:
            width = max(wcwidth(character), 0)
            if used + width > columns:
                found.append(row + (_RESET if style else ""))
                row, used = style, 0
            row += character
            used += width
    return [*found, row][-most:] if line else []
