"""The keyboard between two prompts: what is typed then is neither echoed nor lost."""

from __future__ import annotations

import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LOCAL_MODES = 3


@contextmanager
def keys_kept() -> Iterator[None]:
    """Have keys wait for the next prompt, each by itself; only Ctrl-C acts at once.

    Otherwise the terminal would gather them into lines, and take Ctrl-D for the end of one.
    """
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    meanwhile = termios.tcgetattr(keyboard)
    meanwhile[_LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(keyboard, termios.TCSADRAIN, meanwhile)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
