"""A second SQLite library in the process: acknowledged writes stay, the file stays intact."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.sqlite.file_identity import REMOVED_LOGS
from tests.storage.sqlite.other_process import ROOT
from tests.storage.sqlite.second_sqlite_programs import MESSAGES

FAULT = pytest.mark.fault(
    "Another SQLite library in the process opens and closes the store",
    "Every acknowledged message is there; the file is whole",
    on="sqlite",
)


#: Where locks belong to the process, and how the store is kept apart there.
PROCESS_LOCKS = pytest.mark.parametrize("locks", ["of the process", "with a rollback journal"])


def run(
    program: str, *arguments: object, locks: str = "of the descriptor"
) -> tuple[int, list[str]]:
    """Run a program to its end; return how it ended and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.storage.sqlite.second_sqlite_programs", program]
        + [str(argument) for argument in arguments],
        cwd=ROOT,
        env=os.environ | {"LOCKS": locks},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout.splitlines()


def contents(path: Path) -> list[str]:
    """The messages as another process would find them, in a file that must be whole."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute("SELECT content FROM messages ORDER BY id").fetchall()
    return [content for (content,) in rows]


def rows_of_the_other(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT count(*) FROM state_meta WHERE value = 'x'"
        return int(connection.execute(query).fetchone()[0])


ALL = [f"message {number}" for number in range(MESSAGES)]


@FAULT
@pytest.mark.parametrize("end", ["kill", "close"])
@pytest.mark.parametrize("company", ["alone", "company"])
@pytest.mark.parametrize("how", ["rw", "ro", "backup", "files"])
def test_a_visit_costs_no_message(tmp_path: Path, how: str, company: str, end: str) -> None:
    path = tmp_path / "state.db"
    code, _ = run("visit", path, how, company, end)
    assert (code == 0) == (end == "close")
    assert contents(path) == ALL


@FAULT
@pytest.mark.parametrize("how", ["rw", "ro", "backup"])
def test_a_library_that_tells_nothing_of_what_it_opens(tmp_path: Path, how: str) -> None:
    path = tmp_path / "state.db"
    run("visit", path, how, "company", "kill", "pysqlite3")
    assert contents(path) == ALL


@FAULT
@pytest.mark.parametrize("moment", ["close", "kill", "reopened"])
def test_a_neighbour_that_stays_loses_nothing_either(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "state.db"
    run("stay", path, moment)
    assert contents(path) == ALL
    assert rows_of_the_other(path) == MESSAGES + 1


@FAULT
@pytest.mark.parametrize("name", ["sqlite3", "pysqlite3"])
def test_threads_on_both_sides_at_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / "state.db"
    _, said = run("hammer", path, 60, name)
    assert said == ["failures []", "granted 120"]
    assert sorted(contents(path)) == sorted(
        f"message {thread} {number}" for thread in range(2) for number in range(60)
    )
    assert rows_of_the_other(path) == 120


@FAULT
@PROCESS_LOCKS
@pytest.mark.parametrize("end", ["kill", "close"])
@pytest.mark.parametrize("company", ["alone", "company"])
@pytest.mark.parametrize("how", ["rw", "ro", "backup"])
def test_a_visit_where_locks_are_the_process_s(
    tmp_path: Path, locks: str, how: str, company: str, end: str
) -> None:
    path = tmp_path / "state.db"
    run("visit", path, how, company, end, locks=locks)
    assert contents(path) == ALL


@FAULT
@pytest.mark.parametrize("moment", ["close", "kill", "reopened"])
def test_a_neighbour_that_stays_with_a_rollback_journal(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "state.db"
    run("stay", path, moment, locks="with a rollback journal")
    assert contents(path) == ALL
    assert rows_of_the_other(path) == MESSAGES + 1


def test_a_store_is_refused_to_whom_nothing_can_be_promised(tmp_path: Path) -> None:
    # A log that another library of this process uses, and no locks between the two.
    path = tmp_path / "state.db"
    _, said = run("stay", path, "close", locks="of the process")
    assert said == ["StoreLocked"]
    assert contents(path) == []


def test_another_library_is_refused_while_another_process_uses_the_log(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _, said = run("be_crowded", path, locks="of the process")
    assert said == ["StoreLocked"]
    assert contents(path) == ALL


@FAULT
@PROCESS_LOCKS
def test_threads_where_locks_are_the_process_s(tmp_path: Path, locks: str) -> None:
    path = tmp_path / "state.db"
    _, said = run("hammer", path, 60, locks=locks)
    assert said == ["failures []", "granted 120"]
    assert len(contents(path)) == 120
    assert rows_of_the_other(path) == 120


@FAULT
def test_a_fork_beside_a_neighbour(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _, said = run("fork", path)
    assert said == ["child: StoreUnavailable"]
    assert contents(path) == ALL
    assert rows_of_the_other(path) == 1


def test_a_fork_beside_an_idle_library_names_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _, (error,) = run("fork_idle", path)
    assert error.startswith("child: StoreUnavailable: ")
    assert "no other SQLite library of the process" in error
    assert contents(path) == ALL


def test_a_child_does_not_keep_the_locks_of_a_killed_parent(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    command = [sys.executable, "-m", "tests.storage.sqlite.second_sqlite_programs", "leave_child"]
    with subprocess.Popen(
        [*command, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        parent.wait(timeout=60)
        with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as connection:
            # There is no reader, so all of the log can be copied and removed.
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            assert busy == 0
            assert connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
        assert contents(path) == ["kept"]
        parent.communicate(timeout=60)


@pytest.mark.fault(
    "The write-ahead log is removed before, during or at the end of a write",
    "The write is stored once, or refused as in doubt; the next is stored; the doctor reports it",
    on="sqlite",
)
def test_a_log_that_is_removed_is_noticed_before_a_write_is_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    _, said = run("lose_log", path)
    assert said == [
        "before stored 1",
        "under way stored 2",
        "in the commit StoreUnavailable It is not known whether the write was stored 1",
        "next stored 1",
    ]
    with closing(sqlite3.connect(path)) as connection:
        rows = dict(connection.execute("SELECT key, value FROM state_meta"))
    assert {"before", "under way", "next"} <= rows.keys()
    assert json.loads(rows[REMOVED_LOGS])["count"] == 3


#: A handler that was registered before the store was opened runs after those of the store.
WRITES_AT_EXIT = """
import atexit, sqlite3, sys
from hermes_sessions import SessionDB
from hermes_sessions.errors import StoreLocked

def late():
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO state_meta VALUES ('k', 'x')")
    try:
        db.append_message("s", "user", "acknowledged")
        print("acknowledged")
    except StoreLocked:
        print("refused")
    other.execute("COMMIT")
    db.append_message("s", "user", "after")

atexit.register(late)
db = SessionDB(sys.argv[1], lock_timeout=0.2)
db.create_session("s", "cli")
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("SELECT count(*) FROM messages").fetchall()
"""


@FAULT
def test_both_write_while_the_interpreter_ends(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    done = subprocess.run(
        [sys.executable, "-c", WRITES_AT_EXIT, path],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.split() == ["refused"]
    assert contents(path) == ["after"]


APPENDS = """
import sys
from hermes_sessions import SessionDB
with SessionDB(sys.argv[1]) as db:
    for number in range(5):
        db.append_message("s", "user", f"{sys.argv[2]} {number}")
"""


@pytest.mark.fault(
    "The index of the write-ahead log is removed while the store is open",
    "Every message that was acknowledged afterwards is there, whichever process wrote it",
    on="sqlite",
)
def test_a_removed_index_of_the_log_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        db.create_session("s", "cli")
        Path(f"{path}-shm").unlink()
        command = [sys.executable, "-c", APPENDS, path, "other"]
        subprocess.run(command, timeout=300, check=True)
        for number in range(5):
            db.append_message("s", "user", f"own {number}")
    assert contents(path) == [f"{who} {number}" for who in ("other", "own") for number in range(5)]
