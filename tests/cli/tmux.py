"""A real terminal: tmux on a private server, without user configuration."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.cli.harness import Hermes

# The command at the time of the tests, which stands still: no bar comes on a slow machine. It waits
# for its terminal to be watched.
_PROGRAM = """
import sys
from hermes_sessions.cli.console import Console
from hermes_sessions.cli.main import run
open(sys.argv[1], "rb").read(1)
now = float(sys.argv[2])
code = run(sys.argv[3:], Console(clock=lambda: now, stopwatch=lambda: 0.0))
print("[end]", flush=True)
input()
"""


class Tmux:
    """The command in a window; what is on it can be read and typed. Use it in a ``with`` block."""

    def __init__(
        self,
        hermes: Hermes,
        place: Path,
        *arguments: str,
        size: tuple[int, int],
        now: float,
        **environ: str,
    ) -> None:
        self._socket = str(place / "tmux")
        self._environ = hermes.environ(**{"TERM": "xterm-256color", **environ})
        self._seen, self._go = place / "seen", place / "go"
        os.mkfifo(self._seen)
        os.mkfifo(self._go)
        columns, height = size
        command = [sys.executable, "-c", _PROGRAM, str(self._go), str(now), *arguments]
        self._tmux(
            *("new-session", "-d", "-x", str(columns), "-y", str(height)),
            *(word for name, value in self._environ.items() for word in ("-e", f"{name}={value}")),
            "--",
            *command,
        )
        self._tmux("pipe-pane", "-O", f"exec cat >{self._seen}")
        self._output = self._seen.open("rb", buffering=0)
        self._go.write_bytes(b"!")

    def _tmux(self, *arguments: str) -> str:
        result = subprocess.run(
            ["tmux", "-S", self._socket, "-f", "/dev/null", *arguments],
            env=self._environ,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        return result.stdout

    def keys(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    @property
    def screen(self) -> str:
        """What is on the window, without blanks at the ends of lines."""
        lines = self._tmux("capture-pane", "-p").splitlines()
        return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"

    def wait_for(self, is_shown: Callable[[str], bool]) -> str:
        """Return the screen as soon as it shows what is wanted."""
        while True:
            screen = self.screen
            if is_shown(screen):
                return screen
            assert self._output.read(65536), f"it never came; the screen shows:\n{screen}"

    def wait_for_the_end(self) -> str:
        """Return the screen when the command is done."""
        return self.wait_for(lambda screen: screen.endswith("[end]\n")).removesuffix("[end]\n")

    def __enter__(self) -> "Tmux":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tmux("kill-server")
        self._output.close()
