"""A pseudo-terminal in which tests start the command, type, and read the screen."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from types import TracebackType

from tests.cli.harness import Hermes
from tests.cli.vt100 import Emulator

_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: How long a test waits for something that never comes; far above what is ever needed.
_GIVE_UP = 60

_ON_TERMINAL = 'exec "$@" <"$0" >"$0" 2>&1'
# The command with a stopwatch that advances by two seconds with every call.
SLOW_COMMAND = """
import itertools, sys
from hermes_sessions.cli.console import Console
from hermes_sessions.cli.main import run
seconds = itertools.count(0, 2)
sys.exit(run(sys.argv[1:], Console(stopwatch=lambda: float(next(seconds)))))
"""


def without_escapes(text: str) -> str:
    return _ESCAPE_SEQUENCE.sub("", text)


class Terminal:
    """A process whose standard streams are a terminal. Use it in a ``with`` block."""

    def __init__(
        self,
        hermes: Hermes,
        *arguments: str,
        columns: int = 100,
        program: str | None = None,
        command: Sequence[str] = (),
        **environ: str,
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        start = ["-c", program] if program else ["-m", "hermes_sessions"]
        started = [*command] or [sys.executable, *start, *arguments]
        # The first terminal that the leader of a session opens becomes the one that it obeys.
        self.process = subprocess.Popen(
            ["sh", "-c", _ON_TERMINAL, os.ttyname(theirs), *started],
            env=hermes.environ(**environ),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        # The other side stays open until the process has it open, too.
        self._theirs: int | None = theirs
        self.screen = ""
        self._is_closed = False
        self._emulator = Emulator(columns)
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    @property
    def shown(self) -> str:
        """Return the text of the terminal, including lines that have scrolled out."""
        return self._emulator.text

    def wait_until(self, is_shown: Callable[[str], bool], what: str) -> None:
        """Read until the terminal shows what is wanted."""
        while not is_shown(self.shown):
            assert self._read(), f"{what!r} never came; the terminal shows:\n{self.shown}"

    def resize(self, columns: int) -> None:
        size = struct.pack("HHHH", 30, columns, 0, 0)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)
        self._emulator.columns = columns

    def keys(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until *text* is on the screen."""
        while text not in self.screen:
            assert self._read(), f"{text!r} never came; the screen shows:\n{self.screen}"

    def press_interrupt(self) -> None:
        """Press Ctrl-C, again until something comes of it: Python does not notice one that comes
        right before it begins to wait for input. One that it only answers late must not be followed
        by another, which would come amid the end of the program.
        """
        shown = self.screen.replace("^C", "")
        while self.screen.replace("^C", "") == shown:
            self.keys("\x03")
            while select.select([self._ours], [], [], 15.0)[0]:
                if not self._read():
                    return

    def finish(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.process.wait()

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], _GIVE_UP)
        assert ready, f"nothing happens any more; the screen shows:\n{self.screen}"
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        if self._theirs is not None:
            os.close(self._theirs)
            self._theirs = None
        text = self._decoder.decode(data)
        self._emulator.feed(text)
        self.screen += text.replace("\r\n", "\n")
        return bool(data)

    def close(self) -> None:
        """Close the window, as a person does."""
        os.close(self._ours)
        self._is_closed = True

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if not self._is_closed:
            os.close(self._ours)
        if self._theirs is not None:
            os.close(self._theirs)
