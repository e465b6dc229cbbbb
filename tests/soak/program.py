"""Processes of the soak run, made to be killed.

    python -m tests.soak.program write URL NAME LIMIT
    python -m tests.soak.program read URL

Each waits for lines with a number, and does so much. A writer says "who number" for each message
that was acknowledged, "full" when there was no room for one, and "done". The end of its input, or
SIGTERM, ends it in order.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import sys
import threading
from contextlib import closing, suppress

from hermes_sessions import SessionDB
from hermes_sessions.errors import DiskFull, HermesSessionsError, StoreUnreachable

THREADS = 2
#: Long enough for a server that is restarted on a busy machine.
PATIENCE = 300.0
WORDS = "river harbour 漓江 delta naïve don't v1.2.3 quay path/to/file 🙂".split()


def say(*words: object) -> None:
    """Print a line in one write, so that a reader of a killed process gets all of it or nothing."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def end(number: int, frame: object) -> None:
    del frame
    raise SystemExit(0 if number == signal.SIGTERM else 1)


def visit(file: str, chance: random.Random) -> None:
    """Have Python's own library look at a store, or copy it, and leave."""
    mode = chance.choice(["ro", "rw"])
    with closing(sqlite3.connect(f"file:{file}?mode={mode}", uri=True)) as neighbour:
        if chance.random() < 0.3:
            with closing(sqlite3.connect(":memory:")) as copy:
                neighbour.backup(copy)
        else:
            neighbour.execute("SELECT count(*) FROM messages").fetchone()


class Writer:
    """Several threads, each with a session of its own and one that all processes share."""

    def __init__(self, db: SessionDB, name: str, file: str | None) -> None:
        """*file* is that of a SQLite store; Python's own library looks at it now and then."""
        self._db = db
        self._name = name
        self._file = file
        self._next = [0] * THREADS
        self._stop = threading.Event()
        self._failed: list[HermesSessionsError] = []

    def run(self) -> None:
        try:
            for line in sys.stdin:
                self._write(int(line))
                say("done")
        finally:
            self._stop.set()

    def _write(self, amount: int) -> None:
        threads = [
            threading.Thread(target=self._guarded, args=(number, amount))
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            self._stop_and_wait(threads)
        for error in self._failed:
            raise error

    def _stop_and_wait(self, threads: list[threading.Thread]) -> None:
        self._stop.set()
        for thread in threads:
            thread.join()
        self._stop.clear()

    def _guarded(self, thread: int, amount: int) -> None:
        try:
            self._write_in(thread, amount)
        except DiskFull:
            say("full", thread)
        except HermesSessionsError as error:  # Raised where the threads are waited for.
            self._failed.append(error)

    def _write_in(self, thread: int, amount: int) -> None:
        writer = f"{self._name}t{thread}"
        chance = random.Random(f"{writer} {self._next[thread]}")
        self._db.ensure_session(writer, source="soak")
        self._db.ensure_session("shared", source="soak")
        for _ in range(amount):
            if self._stop.is_set():
                return
            number = self._next[thread]
            text = " ".join(chance.choices(WORDS, k=chance.randint(1, 400)))
            session = chance.choice([writer, "shared"])
            self._db.append_message(
                session,
                role="user",
                content=f"{writer} {number} {text}",
                external_id=f"{writer}-{number}",
            )
            self._next[thread] += 1
            say(writer, number)
            if self._file is not None and number % 5 == 0:
                visit(self._file, chance)


def write(url: str, name: str, limit: str) -> None:
    with SessionDB.from_url(url, lock_timeout=PATIENCE) as db:
        if limit != "none":
            # The closest to a full disk without root: the log may not grow.
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
        say("ready")
        Writer(db, name, url.removeprefix("sqlite://") if url.startswith("sqlite:") else None).run()


def read(url: str) -> None:
    """Look at everything, and require that it is in order at any moment."""
    chance = random.Random(url)
    with SessionDB.from_url(url, lock_timeout=PATIENCE) as db:
        say("ready")
        for line in sys.stdin:
            looks = 0
            while looks < int(line):
                # A server that is stopped in the middle of an answer cannot give it; ask again.
                with suppress(StoreUnreachable):
                    look(db, chance)
                    looks += 1
            say("done")


def look(db: SessionDB, chance: random.Random) -> None:
    listed = db.list_sessions_rich(limit=20)
    if listed:
        chosen = chance.choice(listed)["id"]
        ordinals = [message["ordinal"] for message in db.get_messages(chosen)]
        assert ordinals == sorted(set(ordinals)), f"{chosen}: {ordinals}"
    found = db.search(chance.choice(WORDS), limit=5)
    assert len(found.hits) <= 5


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    {"write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
