"""The console of a command: its terminal or pipe, its environment, and the clock.

Data goes to standard output; questions, progress, warnings and errors go to standard error.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NamedTuple

from hermes_sessions.cli.render.safe_text import one_line
from hermes_sessions.cli.render.style import Style
from hermes_sessions.config.paths import process_environment
from hermes_sessions.storage.logs import warnings_shown_by

#: Shorter work shows no bar, which would only flicker.
_BAR_AFTER_SECONDS = 1.0


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
        """Advance the bar by *steps*."""
        self._done += steps
        if not self._visible:
            return
        if self._bar is not None:
            self._bar.update(steps)
        elif self._stopwatch() - self._started >= _BAR_AFTER_SECONDS:
            self._bar = self._open_bar()

    def reach(self, done: int, total: int) -> None:
        """Set the bar to *done* of *total*, for work whose total changes on the way."""
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

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)


def show_library_warnings(console: "Console") -> AbstractContextManager[None]:
    """Print warnings of the library inside the block, one line each, without their origin."""
    return warnings_shown_by(lambda text: console.tell(f"Warning: {one_line(text)}"))


#: The name of the stream in errors.
STANDARD_OUTPUT = "standard output"


class Console(NamedTuple):
    """The surroundings of one run of a command."""

    #: Seconds since the epoch.
    clock: Callable[[], float] = time.time
    #: Seconds that never go back, for measuring how long work takes.
    stopwatch: Callable[[], float] = time.monotonic
    environ: Mapping[str, str] = process_environment()
    #: ASCII decoration, no colour, no progress bar, fixed layout.
    plain: bool = False
    #: Print JSON instead of text.
    as_json: bool = False

    @property
    def style(self) -> Style:
        """The style that standard output supports."""
        if self.plain:
            return Style(ascii_only=True)
        return Style(
            colour=self._wants_colour(sys.stdout),
            ascii_only=not _can_draw_lines(sys.stdout.encoding),
            width=self._width(),
        )

    def print(self, lines: str | Iterable[str]) -> None:
        """Write one or several lines of text to standard output."""
        for line in (lines,) if isinstance(lines, str) else lines:
            try:
                sys.stdout.write(line + "\n")
            except OSError as error:
                error.filename = STANDARD_OUTPUT
                raise

    def print_json(self, value: Any) -> None:
        """Write a JSON value to standard output."""
        from hermes_sessions.cli.render.json_output import json_text

        text = json_text(value).encode("utf-8") + b"\n"
        try:
            sys.stdout.flush()
            # JSON is UTF-8 in every locale.
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise

    def tell(self, lines: str | Iterable[str]) -> None:
        """Write one or several lines to standard error."""
        sys.stdout.flush()
        for line in (lines,) if isinstance(lines, str) else lines:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def confirm(self, question: str) -> bool:
        """Ask on standard error and return whether the answer read from standard input is yes.

        Anything else is no, and so is the end of the input.
        """
        sys.stdout.flush()
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        answer = sys.stdin.readline() if sys.stdin is not None else ""
        if not answer.endswith("\n") or not sys.stdin.isatty():
            # No Enter was echoed, so the next output would continue in the same line.
            self.tell("")
        return answer.strip().lower() in {"y", "yes"}

    def progress(self, label: str, total: int) -> Progress:
        """Return a progress bar that appears on a terminal when work takes longer than a second."""
        visible = not self.plain and not self.as_json and sys.stderr.isatty()
        return Progress(label, total, visible=visible, stopwatch=self.stopwatch)

    def _wants_colour(self, stream: Any) -> bool:
        return (
            stream.isatty()
            and not self.environ.get("NO_COLOR")
            and self.environ.get("TERM") != "dumb"
        )

    def _width(self) -> int | None:
        columns = self.environ.get("COLUMNS", "")
        if columns.isdecimal() and int(columns) > 0:
            return int(columns)
        if not sys.stdout.isatty():
            return None
        try:
            return os.get_terminal_size(sys.stdout.fileno()).columns or None
        except OSError:
            return None


def _can_draw_lines(encoding: str | None) -> bool:
    try:
        "─—…·●◆★".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
