"""A terminal on which an answer appears above a line that is being typed.

Whole lines go to the terminal, and stay in its history. The line that is not complete yet is shown
right above the prompt and moves on with every piece. Everything that is written to standard output
or standard error meanwhile, by any thread, takes this way.
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
    """The terminal, shared by a prompt and by whoever writes."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._lock = threading.RLock()
        self._unwritten = ""
        self._application: Any = None

    @property
    def unfinished(self) -> str:
        """The line that is not complete yet."""
        with self._lock:
            return self._unwritten.rpartition("\n")[2]

    def write(self, text: str) -> None:
        """Show text, now or as soon as the prompt lets it pass; any thread may."""
        with self._lock:
            self._unwritten += text
        self.refresh()

    def refresh(self) -> None:
        """Show what has changed."""
        with self._lock:
            application = self._application
            if application is None:
                self._write_lines()
                return
            loop = application.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._refresh_beside, application)

    def write_above_prompt(self, lines: str) -> None:
        """Show whole lines above the line that is not complete yet."""
        with self._lock:
            written, end, rest = self._unwritten.rpartition("\n")
            self._unwritten = f"{written}{end}{lines}{rest}"
        self.refresh()

    def finish_line(self) -> None:
        """End the line that is not complete yet, if there is one."""
        if self.unfinished:
            self.write("\n")

    @contextmanager
    def beside(self, application: Any) -> Iterator[None]:
        """Let *application*, which has the prompt, draw below what is written."""
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
        """Show what is written to the standard streams in the block."""
        streams = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = _Stream(self, self._terminal)
        try:
            yield
        finally:
            self.finish_line()
            sys.stdout, sys.stderr = streams

    def _refresh_beside(self, application: Any) -> None:
        """In the application's own thread."""
        if not application.is_running:
            return  # what is left is written when the prompt is gone
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
    """Stands for a standard stream. Lines of the thread that made it are shown aside."""

    def __init__(self, screen: Screen, terminal: TextIO) -> None:
        self._screen = screen
        self._terminal = terminal
        self._thread = threading.get_ident()
        self.encoding = terminal.encoding
        self.errors = terminal.errors

    def write(self, text: str) -> int:
        # What is said about a line that was typed must not end up in the middle of an answer.
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
    """Return a line in rows of so many columns, the last *most* of them; colours stay."""
    line = line.expandtabs(4)
    if line.isascii() and "\x1b" not in line:
        # A paragraph grows by thousands of pieces; only what is seen is looked at each time.
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
