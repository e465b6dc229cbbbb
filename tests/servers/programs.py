"""Programs of server tests: ``python -m tests.servers.programs VERB URL …``."""

from __future__ import annotations

import sys

from hermes_sessions import SessionDB


def append(url: str, session_id: str, writer: str, count: str) -> None:
    """Append to one session; say each message that was acknowledged."""
    with SessionDB.from_url(url) as db:
        for number in range(int(count)):
            db.append_message(session_id, "user", f"{writer} {number}")
            print(number, flush=True)


def open_first(url: str) -> None:
    """Wait for a word, then open a store that may not exist, and write into it."""
    sys.stdin.readline()
    with SessionDB.from_url(url) as db:
        db.set_meta(f"opened by {id(db)} {sys.argv}", "yes")
        print(db.session_count(), flush=True)


if __name__ == "__main__":
    {"append": append, "open_first": open_first}[sys.argv[1]](*sys.argv[2:])
