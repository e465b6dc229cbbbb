"""The backup of an upgraded file: complete, private, never overwritten, limited in number."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hermes_sessions.errors import StoreCorrupt, StoreUnavailable
from hermes_sessions.storage.sessiondb import SessionDB
from tests.fixtures.hermes import content, reader
from tests.storage.sqlite.hermes_files import make, require_everything


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def backups(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.glob("state.db.*") if one.suffix != ".gate")


def edit(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)


def upgrade(path: Path) -> None:
    SessionDB(path).close()


def put_back(path: Path, backup: str = "state.db.v11.bak") -> None:
    """What a user does who wants the old file again."""
    shutil.copy(path.with_name(backup), path)


def test_the_same_state_needs_no_second_backup(path: Path) -> None:
    make("v11", path)
    upgrade(path)
    first = path.with_name("state.db.v11.bak").stat()
    put_back(path)
    upgrade(path)
    assert backups(path) == ["state.db.v11.bak"]
    assert path.with_name("state.db.v11.bak").stat().st_ino == first.st_ino
    assert path.with_name("state.db.v11.bak").stat().st_mtime_ns == first.st_mtime_ns


@pytest.mark.parametrize(
    "change",
    [
        f"UPDATE sessions SET title = 'a8cdef Docker bui' WHERE id = '{content.PLAIN_SESSION}'",
        "UPDATE messages SET timestamp = timestamp + 1 WHERE id = 1",
        "DELETE FROM state_meta",
    ],
)
def test_another_state_gets_a_backup_of_its_own(path: Path, change: str) -> None:
    before = make("v11", path)
    upgrade(path)
    put_back(path)
    edit(path, change)
    changed = reader.read_everything(path)
    upgrade(path)
    assert backups(path) == ["state.db.v11.2.bak", "state.db.v11.bak"]
    assert reader.read_everything(path.with_name("state.db.v11.bak")) == before
    assert reader.read_everything(path.with_name("state.db.v11.2.bak")) == changed
    put_back(path, "state.db.v11.2.bak")
    upgrade(path)
    assert backups(path) == ["state.db.v11.2.bak", "state.db.v11.bak"]


def test_a_fourth_state_is_refused_until_one_is_moved(path: Path) -> None:
    make("v11", path)
    upgrade(path)
    for number in range(2):
        put_back(path)
        edit(path, f"UPDATE messages SET timestamp = {number} WHERE id = 1")
        upgrade(path)
    put_back(path)
    edit(path, "UPDATE messages SET timestamp = 99 WHERE id = 1")
    wanted = reader.read_everything(path)
    with pytest.raises(StoreUnavailable, match="Move those you want to keep"):
        upgrade(path)
    assert reader.read_everything(path) == wanted
    assert backups(path) == ["state.db.v11.2.bak", "state.db.v11.3.bak", "state.db.v11.bak"]
    path.with_name("state.db.v11.2.bak").rename(path.with_name("elsewhere"))
    upgrade(path)
    assert reader.read_everything(path.with_name("state.db.v11.2.bak")) == wanted


def occupy_with_text(target: Path) -> None:
    target.write_text("not a database")


def occupy_with_a_link(target: Path) -> None:
    target.symlink_to(target.with_name("state.db"))


def occupy_with_a_dead_link(target: Path) -> None:
    target.symlink_to(target.with_name("nowhere"))


def occupy_with_a_directory(target: Path) -> None:
    target.mkdir()


@pytest.mark.parametrize(
    "occupy",
    [occupy_with_text, occupy_with_a_link, occupy_with_a_dead_link, occupy_with_a_directory],
)
def test_an_existing_file_of_that_name_is_left_alone(
    path: Path, occupy: Callable[[Path], None]
) -> None:
    before = make("v11", path)
    taken = path.with_name("state.db.v11.bak")
    occupy(taken)
    facts = taken.lstat()
    upgrade(path)
    assert taken.lstat() == facts
    assert reader.read_everything(path.with_name("state.db.v11.2.bak")) == before


def test_what_a_killed_attempt_left_is_replaced(path: Path) -> None:
    before = make("v11", path)
    partial = path.with_name("state.db.bak.partial")
    partial.write_bytes(path.read_bytes()[:50_000])
    partial.chmod(0o644)
    upgrade(path)
    assert backups(path) == ["state.db.v11.bak"]
    backup = path.with_name("state.db.v11.bak")
    assert reader.read_everything(backup) == before
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600


def test_a_backup_is_complete_without_companions(path: Path) -> None:
    """Also what was in the write-ahead log only."""
    make("v11", path)
    edit(path, f"UPDATE sessions SET model = 'in the log' WHERE id = '{content.LONG}'")
    upgrade(path)
    found = reader.read_everything(path.with_name("state.db.v11.bak"))
    assert [s["model"] for s in found["sessions"] if s["id"] == content.LONG] == ["in the log"]


@pytest.mark.parametrize("text", ["Why does the Docker build fail?", "subagent says 3", "漓江"])
def test_a_damaged_file_is_not_upgraded(path: Path, text: str) -> None:
    """The page that holds the text is not readable any more."""
    make("built-v10-grown", path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    damaged = bytearray(path.read_bytes())
    page = damaged.index(text.encode()) // 4096
    damaged[page * 4096 : page * 4096 + 8] = bytes(8)
    path.write_bytes(damaged)
    with pytest.raises(StoreCorrupt, match=r"(?i)nothing was changed"):
        upgrade(path)
    assert path.read_bytes()[100:] == damaged[100:]
    assert backups(path) == []


@pytest.mark.large
def test_a_file_larger_than_a_gigabyte(path: Path) -> None:
    """SQLite leaves out the page at one gigabyte, where its locks are."""
    before = make("v11", path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE weight (load BLOB)")
        for _ in range(1_100):
            connection.execute("INSERT INTO weight VALUES (randomblob(1000000))")
    upgrade(path)
    assert backups(path) == ["state.db.v11.bak"]
    put_back(path)
    with SessionDB(path) as db:
        require_everything(db, before)
    assert backups(path) == ["state.db.v11.bak"]
