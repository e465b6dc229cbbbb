"""An upgrade that is killed at any file call leaves the old file or a complete new one."""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from hermes_sessions.storage.sqlite import migrations
from tests.fixtures.hermes import reader
from tests.storage.sqlite import opener
from tests.storage.sqlite.hermes_files import (
    Everything,
    UpgradingSessionDB,
    make,
    require_upgraded,
    version_in,
)

CALLS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "rename")
TAILS = ("", "-journal", "-wal", "-shm", ".bak.partial", ".v8.bak", ".v11.bak", ".v22.bak")
#: Every n-th call of a kind: writes are many and alike, and syncs and removals are adjacent.
STEP = {"pwrite64": 173, "fdatasync": 2, "unlink": 2}


def traced(path: Path, log: Path, *inject: str) -> list[str]:
    """A command line that watches the calls on the store and its companions."""
    watched = [str(path) + tail for tail in TAILS] + [str(path.parent)]
    return [
        *("strace", "-f", "-qq", "-o", str(log), "-e", f"trace={','.join(CALLS)}"),
        *(argument for one in watched for argument in ("-P", one)),
        *inject,
    ]


@cache
def calls_of_an_upgrade(name: str) -> Counter[str]:
    """How often each call is made when nothing happens."""
    with tempfile.TemporaryDirectory() as directory:
        path, log = Path(directory) / "state.db", Path(directory) / "log"
        make(name, path)
        assert "error" not in opener.open_elsewhere(path, traced(path, log))
        return Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))


def is_new(path: Path, before: Everything, scratch: Path) -> bool:
    """Look at a copy with the old program's library: it finds the old file or a whole new one."""
    scratch.mkdir()
    copy = scratch / path.name
    for tail in ("", "-journal", "-wal"):
        if path.with_name(path.name + tail).exists():
            shutil.copy(path.with_name(path.name + tail), scratch)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
    if mark == migrations.APPLICATION_ID:
        return True
    assert reader.read_everything(copy) == before
    return False


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["v11", "v22", "built-v8-rollback-journal"])
@pytest.mark.fault(
    "Killed at any write while an older layout is upgraded",
    "The file is the old or the new one; the next open completes it",
    on="sqlite",
)
def test_the_file_is_old_or_new_and_the_next_open_completes_it(
    name: str, call: str, tmp_path: Path, long_run: bool
) -> None:
    total = calls_of_an_upgrade(name)[call]
    assert total > 0
    step = 1 if long_run else STEP.get(call, 1)
    outcomes = Counter[bool]()
    for number in range(1, total + 1, step):
        directory = tmp_path / str(number)
        directory.mkdir()
        path = directory / "state.db"
        before = make(name, path)
        injection = f"inject={call}:signal=KILL:when={number}"
        process = opener.start(path, traced(path, directory / "log", "-e", injection))
        process.communicate()
        outcomes[is_new(path, before, directory / "scratch")] += 1
        with UpgradingSessionDB(path) as db:
            require_upgraded(db, name, before)
        assert path.read_bytes()[18:20] == b"\2\2", "it has a write-ahead log in the end"
        backup = f"state.db.v{version_in(name)}.bak"
        assert sorted(one.name for one in directory.glob("state.db*")) == [
            "state.db",
            "state.db.gate",
            backup,
        ]
        assert reader.read_everything(directory / backup) == before
        shutil.rmtree(directory)
    assert outcomes.total() > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["v11", "v22"])
def test_killed_again_and_again(name: str, tmp_path: Path, long_run: bool) -> None:
    """Each attempt starts over; one backup and no other leftover stays of them all."""
    path = tmp_path / "state.db"
    before = make(name, path)
    killed = 0
    for number in range(20, 10_000, 67 if long_run else 101):
        injection = f"inject=pwrite64:signal=KILL:when={number}"
        process = opener.start(path, traced(path, tmp_path / "log", "-e", injection))
        process.communicate()
        if process.returncode == 0:
            break
        killed += 1
    assert killed > 5
    with UpgradingSessionDB(path) as db:
        require_upgraded(db, name, before)
    assert sorted(one.name for one in tmp_path.glob("state.db*")) == [
        "state.db",
        "state.db.gate",
        f"state.db.{name}.bak",
    ]
