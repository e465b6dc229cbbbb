"""What a process does that has a store open with two copies of SQLite; see `test_second_sqlite`.

python -m tests.storage.sqlite.second_sqlite_programs visit /some/where/state.db rw alone kill
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_sessions.errors import StoreError, StoreLocked
from hermes_sessions.storage.sessiondb import SessionDB
from hermes_sessions.storage.sqlite import ofd_locks
from tests.storage.sqlite.programs import open_store, say

#: The messages that are written after the visit.
MESSAGES = 100


def store(path: str) -> SessionDB:
    """Open the store with the kind of locks that is asked for."""
    locks = os.environ.get("LOCKS", "of the descriptor")
    if locks == "of the process":
        ofd_locks._installed = False
    return open_store(path, journal="delete" if locks == "with a rollback journal" else "wal")


def library(name: str) -> Any:
    """Another copy of SQLite: Python's own, or one that tells nothing of what it opens."""
    return importlib.import_module(name)


def visit(path: str, how: str, company: str, end: str, name: str = "sqlite3") -> None:
    """Have another library look at the store and leave, then write, then end."""
    other = library(name)
    db = store(path)
    db.create_session("s", source="cli")
    if how == "files":
        for suffix in ("", "-wal", "-shm"):
            shutil.copyfile(path + suffix, f"{path}.copy{suffix}")
        source = other.connect(":memory:")
    elif how == "backup":
        source = other.connect(f"file:{path}?mode=ro", uri=True)
        copy = other.connect(f"{path}.copy")
        source.backup(copy)
        copy.close()
    else:
        source = other.connect(f"file:{path}?mode={how}", uri=True)
        source.execute("SELECT count(*) FROM messages").fetchall()
    source.close()
    if company == "company":
        look_elsewhere(path)
    for number in range(MESSAGES):
        db.append_message("s", "user", f"message {number}")
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    db.close()


def look_elsewhere(path: str) -> None:
    """Have another process open the store and close it."""
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
    code += "c.execute('SELECT count(*) FROM messages').fetchall(); c.close()"
    subprocess.run([sys.executable, "-c", code, path], check=True, timeout=60)


def stay(path: str, moment: str) -> None:
    """Keep a connection of another library open from before, or until after, ours; write on both
    sides, and say how many rows of its own the other one was granted.
    """
    other = library("sqlite3")
    with store(path) as db:
        db.create_session("s", source="cli")
    foreign = other.connect(path, isolation_level=None)
    foreign.execute("SELECT count(*) FROM messages").fetchall()
    try:
        db = store(path)
    except StoreLocked as error:
        say(type(error).__name__)
        os._exit(0)
    for number in range(MESSAGES):
        db.append_message("s", "user", f"message {number}")
        foreign.execute("INSERT INTO state_meta (key, value) VALUES (?, ?)", (f"n{number}", "x"))
        if number == MESSAGES // 2 and moment == "reopened":
            db.close()
            look_elsewhere(path)
            db = store(path)
    db.close()
    look_elsewhere(path)
    foreign.execute("INSERT INTO state_meta (key, value) VALUES ('last', 'x')")
    if moment == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    foreign.close()


def be_crowded(path: str) -> None:
    """Open the store with another library while another process has it open; then write."""
    db = store(path)
    db.create_session("s", source="cli")
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
    code += "c.execute('SELECT count(*) FROM messages').fetchall(); print('open', flush=True); "
    code += "sys.stdin.read()"
    command = [sys.executable, "-c", code, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            library("sqlite3").connect(path)
        except StoreLocked as error:
            say(type(error).__name__)
        for number in range(MESSAGES):
            db.append_message("s", "user", f"message {number}")
        os.kill(os.getpid(), signal.SIGKILL)


def hammer(path: str, rounds: str, name: str = "sqlite3") -> None:
    """Write, read, open and close from threads on both sides at once; say what was acknowledged."""
    other = library(name)
    db = store(path)
    db.create_session("s", source="cli")
    failures: list[str] = []
    granted: list[str] = []

    def ours(thread: int) -> None:
        for number in range(int(rounds)):
            db.append_message("s", "user", f"message {thread} {number}")
            if number % 10 == 0:
                db.get_messages("s")

    def theirs(thread: int) -> None:
        for number in range(int(rounds)):
            connection = other.connect(path, isolation_level=None, timeout=60)
            key = f"row {thread} {number}"
            connection.execute("INSERT INTO state_meta (key, value) VALUES (?, 'x')", (key,))
            granted.append(key)
            connection.execute("SELECT count(*) FROM messages").fetchall()
            if number % 7 == 0:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.close()

    def guarded(work: Any, thread: int) -> None:
        try:
            work(thread)
        except (StoreError, other.Error) as error:
            failures.append(f"{work.__name__}: {error!r}")

    threads = [
        threading.Thread(target=guarded, args=(work, number))
        for work in (ours, theirs)
        for number in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("failures", failures)
    say("granted", len(granted))
    os.kill(os.getpid(), signal.SIGKILL)


def fork(path: str) -> None:
    """Fork while another library has the store open; say how it went in the child."""
    other = library("sqlite3")
    db = store(path)
    db.create_session("s", source="cli")
    foreign = other.connect(path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    foreign.execute("INSERT INTO state_meta (key, value) VALUES ('foreign', 'x')")
    child = os.fork()
    if child == 0:
        try:
            db.append_message("s", "user", "child")
            say("child: stored")
        except StoreError as error:
            say(f"child: {type(error).__name__}")
        os._exit(0)
    os.waitpid(child, 0)
    foreign.execute("COMMIT")
    for number in range(MESSAGES):
        db.append_message("s", "user", f"message {number}")
    os.kill(os.getpid(), signal.SIGKILL)


def fork_idle(path: str) -> None:
    """Fork while another library has the store open and does nothing; print the child's error."""
    db = store(path)
    db.create_session("s", source="cli")
    foreign = library("sqlite3").connect(path)
    foreign.execute("SELECT count(*) FROM messages").fetchall()
    child = os.fork()
    if child == 0:
        try:
            db.append_message("s", "user", "child")
        except StoreError as error:
            say(f"child: {type(error).__name__}: {error}")
        os._exit(0)
    os.waitpid(child, 0)
    for number in range(MESSAGES):
        db.append_message("s", "user", f"message {number}")
    os.kill(os.getpid(), signal.SIGKILL)


def leave_child(path: str) -> None:
    """Fork inside a read and be killed; the child lives on until its input ends."""
    db = store(path)
    db.create_session("s", source="cli")
    with db.provider.read() as reading:
        reading.all("SELECT id FROM sessions")
        child = os.fork()
        if child == 0:
            say(os.getpid())
            sys.stdin.read()
            os._exit(0)
        db.append_message("s", "user", "kept")
        os.kill(os.getpid(), signal.SIGKILL)


def lose_log(path: str) -> None:
    """Have the log removed below an open store at several moments; say what became of writes."""
    with store(path) as db:
        db.create_session("s", source="cli")
    db = store(path)
    log = Path(f"{path}-wal")
    runs: list[str] = []

    def write(when: str, before_commit: Callable[[], Any]) -> None:
        def work(transaction: Any) -> None:
            runs.append(when)
            transaction.run("INSERT INTO state_meta (key, value) VALUES (?, 'x')", (when,))
            if runs.count(when) == 1:
                before_commit()

        try:
            db.provider.write(work)
        except StoreError as error:
            say(when, type(error).__name__, str(error).partition(":")[0], runs.count(when))
        else:
            say(when, "stored", runs.count(when))

    def remove_in_commit() -> None:
        writer = db.provider.engine._writer  # type: ignore[attr-defined]
        writer.set_commit_hook(lambda: bool(log.unlink()))

    def copy_back() -> None:
        # What is in the file stays there when the log is removed once more.
        db.provider.engine.truncate_wal()  # type: ignore[attr-defined]

    log.unlink()
    write("before", lambda: None)
    copy_back()
    write("under way", log.unlink)
    copy_back()
    write("in the commit", remove_in_commit)
    write("next", lambda: None)
    db.close()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
