"""A process that writes, of the version that is first on the path.

    python program.py URL WRITER

It says "ready", waits for a line, opens the store, says "open", and then the number of each message
that was acknowledged, until it is ended. When the store refuses, it says why, and leaves with 3;
when a search fails, it says so and continues.
"""

from __future__ import annotations

import os
import signal
import sys

from hermes_sessions import SessionDB
from hermes_sessions.errors import HermesSessionsError


def say(*words: object) -> None:
    """Print a line in one write, so that a reader of a killed process gets all of it or nothing."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def write(url: str, writer: str) -> None:
    asked_to_end: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: asked_to_end.append(number))
    say("ready")
    sys.stdin.readline()
    with SessionDB.from_url(url, lock_timeout=120.0) as db:
        say("open")
        db.ensure_session(writer, source="test")
        db.ensure_session("shared", source="test")
        number = 0
        while not asked_to_end:
            session = "shared" if number % 2 else writer
            db.append_message(
                session, role="user", content=f"{writer} {number}", external_id=f"{writer}-{number}"
            )
            say(number)
            if number % 8 == 0:
                try:
                    db.search(writer)
                except HermesSessionsError as error:
                    say("unanswered", " ".join(str(error).split()))
            number += 1


if __name__ == "__main__":
    try:
        write(*sys.argv[1:])
    except HermesSessionsError as error:
        say("refused", " ".join(str(error).split()))
        sys.exit(3)
