"""Programs of server tests: ``python -m tests.servers.programs VERB URL …``."""

from __future__ import annotations

import sys

from hermes_sessions import RevisionConflict, SessionDB


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


def pop(url: str, session_id: str) -> None:
    """Wait for a word, then pop until nothing is left; say each message."""
    with SessionDB.from_url(url) as db:
        print("ready", flush=True)
        sys.stdin.readline()
        while (message := db.pop_message(session_id)) is not None:
            print(message["id"], flush=True)


def replace_end(url: str, session_id: str, revision: str, name: str) -> None:
    """Wait for a word, then replace the end if nothing changed; say whether that was done."""
    with SessionDB.from_url(url) as db:
        print("ready", flush=True)
        sys.stdin.readline()
        messages = [{"role": "user", "content": f"{name} {number}"} for number in range(3)]
        try:
            db.replace_suffix(
                session_id, expected_revision=int(revision), keep=1, messages=messages
            )
        except RevisionConflict:
            print("lost", flush=True)
        else:
            print("won", flush=True)


def rewrite_for_ever(url: str, session_id: str, first: str) -> None:
    """Replace the end and a state document again and again; say each round that was done."""
    with SessionDB.from_url(url) as db:
        number = int(first)
        while True:
            messages = [{"role": "user", "content": f"{number}", "payload": number}] * 3
            db.replace_suffix(session_id, expected_revision=None, keep=1, messages=messages)
            db.set_state("session", session_id, "round", number)
            print(number, flush=True)
            number += 1


if __name__ == "__main__":
    programs = (append, open_first, pop, replace_end, rewrite_for_ever)
    {program.__name__: program for program in programs}[sys.argv[1]](*sys.argv[2:])
