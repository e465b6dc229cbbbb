"""A copy in a process of its own that kills itself at a given step.

python -m tests.storage.transfer.killed_copy sqlite:///a.db sqlite:///b.db Copying 3
"""

from __future__ import annotations

import os
import signal
import sys

from tests.storage.transfer.stores import move


def main(source: str, target: str, phase: str, step: str) -> None:
    seen = 0

    def on_progress(what: str, _done: int, _total: int) -> None:
        nonlocal seen
        seen += what == phase
        if seen == int(step):
            os.kill(os.getpid(), signal.SIGKILL)

    move(source, target, on_progress=on_progress)


if __name__ == "__main__":
    main(*sys.argv[1:])
