"""Upgrading while other programs have the file open: wait or refuse."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes_sessions.errors import StoreLocked
from hermes_sessions.storage.sqlite.connection import Deadline, SQLiteOptions
from hermes_sessions.storage.sqlite.exclusive_access import exclusive_access
from tests.fixtures.hermes import content, reader
from tests.fixtures.hermes.old_process import OldProcess, OldProcessError, Transaction
from tests.storage.sqlite import opener
from tests.storage.sqlite.hermes_files import UpgradingSessionDB, make, require_upgraded

#: A file with a write-ahead log, and one with a rollback journal.
FILES = ["v11", "v22", "built-v8-rollback-journal"]
NOT_AT_ALL = 0.05
LONG = 120.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@contextmanager
def holding(path: Path, code: str) -> Iterator[int]:
    """A process that runs *code* with `path` bound and then holds what it has; yields its id."""
    program = (
        f"import sqlite3, sys\npath = sys.argv[1]\n{code}\nprint('ready', flush=True)\ninput()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process.pid
    process.communicate("\n")


def files_beside(path: Path) -> set[str]:
    return {one.name for one in path.parent.iterdir()} - {"state.db.gate"}


@pytest.mark.parametrize("transaction", ["none", "read", "write"])
@pytest.mark.parametrize("name", FILES)
def test_an_old_program_that_stays_is_named(
    name: str, transaction: Transaction, path: Path
) -> None:
    before = make(name, path)
    with OldProcess(path, transaction=transaction) as old:
        with pytest.raises(StoreLocked) as caught:
            UpgradingSessionDB(path, lock_timeout=NOT_AT_ALL)
        assert re.search(rf"\({old.pid}\) still has it open", str(caught.value))
        # It works on as if nothing had happened.
        if transaction == "read":
            old.rollback()
        assert old.append(content.LONG, "still at work") > before["last_message_id"]
        if transaction == "write":
            old.commit()
        assert old.texts(content.LONG)[-1] == "still at work"
    assert files_beside(path) == {"state.db"}
    after = reader.read_everything(path)
    assert after["messages"][:-1] == before["messages"]
    assert after["schema_version"] == before["schema_version"]


@pytest.mark.parametrize("transaction", ["none", "read", "write"])
@pytest.mark.parametrize("name", FILES)
def test_an_old_program_that_ends_is_waited_for(
    name: str, transaction: Transaction, path: Path
) -> None:
    make(name, path)
    with OldProcess(path, transaction=transaction) as old, ThreadPoolExecutor(1) as thread:
        opening = thread.submit(UpgradingSessionDB, path, lock_timeout=LONG)
        if transaction == "read":
            old.commit()
        last = old.append(content.LONG, "the last words")
        if transaction == "write":
            old.commit()
        old.close()
        with opening.result() as db:
            message = db.get_messages(content.LONG)[-1]
            assert (message["id"], message["content"]) == (last, "the last words")


@pytest.mark.parametrize("name", FILES)
def test_what_a_killed_program_committed_is_taken_over(name: str, path: Path) -> None:
    before = make(name, path)
    with OldProcess(path) as old:
        old.append(content.LONG, "committed")
        old.begin_write()
        old.append(content.LONG, "not committed")
        old.kill()
    with UpgradingSessionDB(path) as db:
        messages = db.get_messages(content.LONG)
        assert messages[-1]["content"] == "committed"
        assert len(messages) == len(reader.transcripts(before)[content.LONG]) + 1


@pytest.mark.parametrize("name", FILES)
def test_a_program_that_has_not_read_yet_is_seen(name: str, path: Path) -> None:
    make(name, path)
    with (
        holding(path, "connection = sqlite3.connect(path)") as pid,
        pytest.raises(StoreLocked, match=rf"\({pid}\) still has it open"),
    ):
        UpgradingSessionDB(path, lock_timeout=NOT_AT_ALL)
    UpgradingSessionDB(path).close()


def test_a_program_that_cannot_write_is_not_an_obstacle(path: Path) -> None:
    before = make("built-v8-rollback-journal", path)
    code = "connection = sqlite3.connect(f'file:{path}?mode=ro', uri=True); connection.execute"
    code += "('SELECT count(*) FROM messages').fetchall()"
    with holding(path, code), UpgradingSessionDB(path, lock_timeout=LONG) as db:
        require_upgraded(db, "built-v8-rollback-journal", before)


def test_an_old_program_that_comes_later_does_no_harm(path: Path) -> None:
    before = make("v11", path)
    with UpgradingSessionDB(path) as db, OldProcess(path) as old:
        added = old.append(content.LONG, "by the old program")
        ours = db.append_message(content.LONG, "user", "by the store")
        assert ours > added > before["last_message_id"]
        assert [m["id"] for m in db.get_messages(content.LONG)][-2:] == [added, ours]
        assert old.texts(content.LONG)[-1] == "by the store"


def test_structured_content_of_an_old_program_that_comes_later(path: Path) -> None:
    """Lists and objects, which it marks inside the text, are read as what they are."""
    make("v11", path)
    parts = [{"type": "text", "text": "größer: what is on it?"}, {"type": "image", "url": "x"}]
    texts = ["\x00jso", "json:[]", "x\x00json:[]", '[{"text": "no mark"}]', ""]
    with UpgradingSessionDB(path) as db, OldProcess(path) as old:
        db.create_session("new", "cli")
        old.append("new", "\x00json:" + json.dumps(parts))
        for text in texts:
            old.append("new", text)
        assert [m["content"] for m in db.get_messages("new")] == [parts, *texts]
        (row,) = [row for row in db.list_sessions_rich(limit=-1) if row["id"] == "new"]
        assert not row["preview"].startswith("\x00")
        hits = db.search_messages("what is on it")
        assert "new" in [hit["session_id"] for hit in hits]
        exported = db.export_session("new")
    assert exported is not None
    assert exported["messages"][0]["content_type"] == "json"


@pytest.mark.parametrize("name", FILES)
def test_many_processes_open_an_old_file_at_once(name: str, path: Path) -> None:
    before = make(name, path)
    processes = [opener.start(path, lock_timeout=LONG) for _ in range(8)]
    results = [opener.result_of(process) for process in processes]
    assert results == [results[0]] * len(processes)
    assert "sessions" in results[0]
    assert len([one for one in files_beside(path) if one.endswith(".bak")]) == 1
    with UpgradingSessionDB(path) as db:
        require_upgraded(db, name, before)


def test_an_old_program_cannot_come_in_between(path: Path) -> None:
    """While the upgrade has the file, the old program is told that it is locked."""
    make("v11", path)
    deadline = Deadline()
    deadline.start(LONG)
    with exclusive_access(path, SQLiteOptions(), deadline, gated=True, still_needed=lambda _: True):
        shut_out = OldProcess(path, patience=0.05)
        with pytest.raises(OldProcessError, match="locked"):
            shut_out.begin_write()
        shut_out.close()
    with OldProcess(path, patience=0.05) as old:
        assert old.append(content.LONG, "free again")
