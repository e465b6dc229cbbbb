"""What other processes do in the tests; see `tests.storage.sqlite.other_process`.

python -m tests.storage.sqlite.programs hold_gate /some/where/state.db
"""

from __future__ import annotations

import itertools
import os
import resource
import signal
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hermes_sessions.errors import HermesSessionsError
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite import writer_gate as gates
from hermes_sessions.storage.sqlite.connection import SQLiteOptions
from hermes_sessions.storage.sqlite.provider import SQLiteSessionDBProvider
from hermes_sessions.storage.sqlite.writer_gate import WriterGate

#: No run of the tests ever waits that long; a shorter one could end a wait on a busy machine.
PATIENT = 120.0


def say(*words: object) -> None:
    """Print a line in one write, so that a reader of a killed process gets all of it or nothing."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def listen() -> str:
    """Wait for the next line; end when the process that should send it has ended."""
    line = sys.stdin.readline()
    if not line:
        os._exit(1)
    return line.rstrip("\n")


def open_store(
    path: str | Path,
    *,
    journal: str = "auto",
    durability: str = "full",
    lock_timeout: float = PATIENT,
) -> SessionDB:
    options = SQLiteOptions(journal=journal, durability=durability, lock_timeout=lock_timeout)  # type: ignore[arg-type]
    return SessionDB(provider=SQLiteSessionDBProvider(path, options))


def crowd(size: str, program: str, *arguments: str) -> None:
    """Run a program in many processes at once; its first argument is its number among them.

    They are forked before any of them has opened a store, and start together.
    """
    start_reading, start_writing = os.pipe()
    children = []
    for number in range(int(size)):
        pid = os.fork()
        if not pid:
            os.close(start_writing)
            os.read(start_reading, 1)
            code = 1
            try:
                globals()[program](str(number), *arguments)
                code = 0
            finally:
                if code:
                    traceback.print_exc()
                os._exit(code)
        children.append(pid)
    os.close(start_writing)
    failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
    assert not failed, f"{len(failed)} of {size} failed"


def append(number: str, path: str, count: str, journal: str) -> None:
    """Append numbered messages to a session of its own and to one shared with others."""
    with open_store(path, journal=journal, durability="normal") as db:
        session = f"process {number}"
        db.create_session(session, source="test")
        db.create_session("shared", source="test")
        for count_so_far in range(int(count)):
            db.append_message(session, role="user", content=f"{session} {count_so_far}")
            db.append_message("shared", role="user", content=f"{session} {count_so_far}")


def open_each(number: str, folder: str) -> None:
    """Open store after store, at the same moment as another process, and say what came of it."""
    other = f"{1 - int(number)}"
    for place in sorted(Path(folder).iterdir()):
        (place / number).touch()
        while not (place / other).exists():
            os.sched_yield()
        try:
            open_store(place / "state.db").close()
        except HermesSessionsError as error:
            say(place.name, type(error).__name__)
        else:
            say(place.name, "opened")


def append_for_ever(path: str, journal: str, durability: str) -> None:
    """Append messages to session ``s``, and name each after it was stored.

    An external id makes sure that a repeated one is stored once. Starts at the last known number,
    as a caller does who does not know whether it was stored.
    """
    start = int(listen())
    db = open_store(path, journal=journal, durability=durability)
    db.create_session("s", source="test")
    for number in itertools.count(start):
        db.append_message("s", role="user", content=f"message {number}", external_id=str(number))
        say(number)


def append_through(path: str, journal: str, durability: str, count: str) -> None:
    """Append numbered messages to session ``s`` and continue after errors; print each result.

    Opening counts as the first step: it is tried until it succeeds or the attempts are used up.
    """
    db: SessionDB | None = None
    for number in range(int(count)):
        try:
            if db is None:
                db = open_store(path, journal=journal, durability=durability)
                db._background_indexer.stop()  # No other writes between these system calls.
            db.create_session("s", source="test")
            content = f"message {number} {'x' * 2000}"
            db.append_message("s", role="user", content=content, external_id=str(number))
        except HermesSessionsError as error:
            say("failed", number, type(error).__name__)
        else:
            say("stored", number)


def append_through_interrupts(path: str, count: str) -> None:
    """Write and read while Ctrl-C is pressed, until it has hit *count* times."""
    is_armed = False
    hits = 0

    def interrupt(*_args: object) -> None:
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise KeyboardInterrupt

    db = open_store(path, durability="normal", lock_timeout=20.0)
    db.create_session("s", source="test")
    # Python's own import lock does not survive an interrupt, so what is imported at first use is.
    _insert(db, -2)
    with db.provider.read() as tx:
        tx.one("SELECT MAX(id) FROM messages")
    signal.signal(signal.SIGINT, interrupt)
    say("ready")
    stored = []
    for number in itertools.count():
        try:
            is_armed = True
            _insert(db, number)
            stored.append(number)
            with db.provider.read() as tx:
                tx.one("SELECT MAX(id) FROM messages")
        except KeyboardInterrupt:
            hits += 1
        is_armed = False
        if hits >= int(count):
            break
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    say("enough", *stored)
    # Neither a lock nor a transaction was left behind, for this process and for others.
    another = threading.Thread(target=lambda: (_insert(db, -1), say("still works")))
    another.start()
    another.join()
    listen()


def _insert(db: SessionDB, number: int) -> None:
    db.append_message("s", role="user", content="x" * 100, external_id=str(number))


def fill_disk(path: str, journal: str) -> None:
    """Fill the disk, read what is there, make room, and continue."""
    ballast = Path(path).with_name("ballast")
    ballast.write_bytes(bytes(300_000))
    db = open_store(path, journal=journal)
    db.create_session("s", source="test")
    stored = _append_until_it_fails(db)
    say("read", len(db.get_messages("s")) - stored)
    say("read by another handle", outcome_of(lambda: _count(path)) == str(stored))
    say("failed again", outcome_of(lambda: db.append_message("s", role="user", content=_BIG)))
    ballast.unlink()
    db.append_message("s", role="user", content=_BIG)
    say("stored", len(db.get_messages("s")) - stored)
    db.close()


def open_on_full_disk(path: str) -> None:
    """Fill the disk while the store is closed, then open it."""
    with SessionDB(path) as db:
        db.create_session("s", source="test")
        db.append_message("s", role="user", content="kept")
    ballast = Path(path).with_name("ballast")
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(512))

    def opened(*, read_only: bool) -> str:
        with SessionDB(path, read_only=read_only) as db:
            return read(db)

    say("to write:", outcome_of(lambda: opened(read_only=False)))
    say("to read:", outcome_of(lambda: opened(read_only=True)))
    ballast.unlink()
    say("with room again:", outcome_of(lambda: opened(read_only=False)))


def meet_size_limit(path: str, journal: str) -> None:
    """The same, where the system limits the size of one file."""
    db = open_store(path, journal=journal)
    db.create_session("s", source="test")
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    stored = _append_until_it_fails(db)
    say("read", len(db.get_messages("s")) - stored)
    say("read by another handle", outcome_of(lambda: _count(path)) == str(stored))
    say("failed again", outcome_of(lambda: db.append_message("s", role="user", content=_BIG)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    db.append_message("s", role="user", content=_BIG)
    say("stored", len(db.get_messages("s")) - stored)
    db.close()


_BIG = "x" * 20_000


def _append_until_it_fails(db: SessionDB) -> int:
    for number in itertools.count():
        try:
            db.append_message("s", role="user", content=_BIG)
        except HermesSessionsError as error:
            say("failed", type(error).__name__)
            return number
    raise AssertionError


def _count(path: str) -> int:
    with SessionDB(path, read_only=True) as reader:
        return len(reader.get_messages("s"))


def open_and_append(number: str, path: str, journal: str) -> None:
    """Open a store that may not exist yet, and leave a message."""
    with open_store(path, journal=journal, durability="normal") as db:
        db.create_session("together", source="test")
        db.append_message("together", role="user", content=number)


def keep_writing(path: str, session: str, enough: str, journal: str) -> None:
    """Write until told to stop; say when it is *enough*, and at the end how much it was."""
    stop = threading.Event()
    with open_store(path, journal=journal, durability="normal") as db:
        db.create_session(session, source="test")
        say("ready")
        listen()
        threading.Thread(target=lambda: (listen(), stop.set()), daemon=True).start()
        for number in itertools.count():
            if number == int(enough):
                say("enough")
            if stop.is_set():
                break
            db.append_message(session, role="user", content="x" * 3000)
    say(number)


def hold_store(path: str) -> None:
    """Have a store open, with a write that is not yet copied from the log."""
    with open_store(path) as db:
        db.create_session("held", source="test")
        say("open")
        listen()
        say(len(db.get_messages("held")))


def write_for_long(path: str) -> None:
    """Hold the write transaction of a store until told."""
    with open_store(path) as db:

        def work(tx: object) -> None:
            say("inside")
            listen()

        db.provider.write(work)


def hold_gate(path: str) -> None:
    """Have a turn at the gate, without writing, until told."""
    gate = WriterGate(f"{path}.gate")
    assert gate.enter(float("inf"))
    say("inside")
    listen()


def try_gate(path: str) -> None:
    """Try to get a turn at the gate, first without patience, then with."""
    gate = WriterGate(f"{path}.gate")
    assert not gate.enter(0.0)
    say("kept out")
    listen()
    assert gate.enter(float("inf"))
    say("inside")


def wait_at_gate(path: str) -> None:
    """Stand in line at the gate, and look again only when told."""

    def nap(_seconds: float) -> None:
        say("waiting")
        listen()

    gates.time.sleep = nap
    gates.PATIENCE = PATIENT
    assert WriterGate(f"{path}.gate").enter(float("inf"))
    say("inside")


def outcome_of(action: Callable[[], object]) -> str:
    try:
        return str(action())
    except HermesSessionsError as error:
        return type(error).__name__


def read(db: SessionDB) -> str:
    return " ".join(message["content"] for message in db.get_messages("s"))


def read_and_try_to_write(path: str) -> None:
    with open_store(path) as db:
        say(read(db))
        say(outcome_of(lambda: db.append_message("s", role="user", content="x")))


def try_to_create(path: str) -> None:
    say(outcome_of(lambda: SessionDB(path)))


def read_twice(path: str) -> None:
    """Read, be told that the file has changed, and read again with the same and a new handle."""
    db = open_store(path)
    say(read(db))
    listen()
    say(outcome_of(lambda: read(db)))
    db.close()
    with open_store(path) as again:
        say(read(again))


def run_out_of_descriptors(path: str) -> None:
    """Open and use a store with few descriptors to spare, then with enough."""
    with SessionDB(path) as db:
        db.create_session("s", source="test")
        db.append_message("s", role="user", content="loads whatever is loaded at first use")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = sum(1 for _ in Path("/proc/self/fd").iterdir())

    def use() -> str:
        with SessionDB(path) as db:
            db.append_message("s", role="user", content="x")
            return "stored"

    for spare in range(6):
        resource.setrlimit(resource.RLIMIT_NOFILE, (used - 1 + spare, most))
        say(outcome_of(use))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    say(outcome_of(use))


def become_another_user(user: str, home: str) -> None:
    """As an ordinary user, meet every kind of missing permission in a directory of its own."""
    with SessionDB(":memory:") as db:  # Loads what that user perhaps could not.
        db.create_session("s", source="test")
        db.append_message("s", role="user", content="kept")
        read(db)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(int(user), int(user), int(user))
        os.setresuid(int(user), int(user), int(user))

    def prepared(name: str) -> Path:
        path = Path(home) / name / "state.db"
        with SessionDB(path) as db:
            db.create_session("s", source="test")
            db.append_message("s", role="user", content="kept")
        return path

    def use(path: Path) -> str:
        with SessionDB(path) as db:
            kept = read(db)
            write = outcome_of(lambda: db.append_message("s", role="user", content="x") and "x")
            return f"{kept}, {write}"

    path = prepared("file")
    path.chmod(0o400)
    say("a file without permission to write:", outcome_of(lambda: use(path)))
    with SessionDB(path) as before:
        path.chmod(0o600)
        again = outcome_of(lambda: use(path))
        say("the same with permission again:", again, "and before:", before.provider.read_only)
    other = prepared("directory")
    other.parent.chmod(0o500)
    say("a directory without permission to write:", outcome_of(lambda: use(other)))
    say("a new file there:", outcome_of(lambda: SessionDB(other.with_name("new.db"))))
    third = prepared("closed")
    third.parent.chmod(0)
    say("a directory without permission to enter:", outcome_of(lambda: use(third)))
    inside = third.parent / "deeper" / "state.db"
    say("a new directory inside:", outcome_of(lambda: SessionDB(inside)))


def hold_write_lock(path: str) -> None:
    """Be another program that writes, with the library of Python, until told to commit."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO state_meta (key, value) VALUES ('foreign', 'written')")
    say("held")
    listen()
    connection.execute("COMMIT")
    connection.close()


def write_documented_columns(path: str) -> None:
    """Be another program that knows the documented tables and columns alone."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(
        "INSERT INTO sessions (id, source, model, started_at) VALUES ('foreign', 'tool', 'm', 5.0)"
    )
    for second, (role, content) in enumerate([("user", "hello there"), ("assistant", "hi")]):
        connection.execute(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, ?, ?, ?)",
            ("foreign", role, content, 10.0 + second),
        )
        connection.execute(
            "UPDATE sessions SET message_count = message_count + 1 WHERE id = 'foreign'"
        )
    connection.execute(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, ?, ?, ?)",
        ("ours", "user", "from another program", 20.0),
    )
    connection.close()


def main() -> None:
    from tests.storage.sqlite import fork_programs, search_programs

    name, *arguments = sys.argv[1:]
    programs = {**vars(search_programs), **vars(fork_programs), **globals()}
    programs[name](*arguments)


if __name__ == "__main__":
    main()
