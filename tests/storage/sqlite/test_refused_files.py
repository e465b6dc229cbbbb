"""Files that are not upgraded: each has its own error and stays unchanged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_sessions.errors import (
    InvalidInput,
    NotADatabase,
    SchemaRefused,
    StoreCorrupt,
    StoreReadOnly,
    StoreUnreachable,
)
from hermes_sessions.storage.care.repair.file_repair import check, repair
from hermes_sessions.storage.sessiondb import SessionDB
from tests.care.repair.other_processes import write_and_die
from tests.fixtures.hermes import content, stored
from tests.fixtures.hermes.old_process import OldProcess
from tests.storage.sqlite.hermes_files import LATER, make


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def files_in(directory: Path) -> dict[str, bytes]:
    """Return the files without the gate and an empty log, which are recreated."""
    found = {one.name: one.read_bytes() for one in directory.iterdir() if one.is_file()}
    return {
        name: data
        for name, data in found.items()
        if not name.endswith((".gate", "-shm")) and (data or not name.endswith("-wal"))
    }


@contextmanager
def untouched(path: Path) -> Iterator[None]:
    """Assert that the directory holds the same bytes afterwards."""
    before = files_in(path.parent)
    yield
    assert files_in(path.parent) == before


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("name", LATER)
def test_a_later_version_is_pointed_to_the_import(name: str, path: Path) -> None:
    stored.unpack(name, path)
    with untouched(path), pytest.raises(SchemaRefused) as caught:
        SessionDB(path)
    assert f"hermes sessions import {path}" in str(caught.value)
    assert f"schema version {name.removeprefix('v').partition('-')[0]}" in str(caught.value)
    with untouched(path), pytest.raises(SchemaRefused, match="hermes sessions import"):
        SessionDB(path, read_only=True)


@pytest.mark.parametrize("version", [12, 99])
@pytest.mark.parametrize("name", ["v11", "built-v8-rollback-journal"])
def test_an_unknown_version_is_not_touched(name: str, version: int, path: Path) -> None:
    make(name, path)
    edit(path, f"UPDATE schema_version SET version = {version}")
    with untouched(path), pytest.raises(SchemaRefused, match=f"schema version {version}"):
        SessionDB(path)


def test_a_later_version_keeps_the_log_that_was_left_behind(path: Path) -> None:
    stored.unpack("v22", path)
    with OldProcess(path) as old:
        old.append(content.LONG, "in the log only")
        old.kill()
    with untouched(path), pytest.raises(SchemaRefused):
        SessionDB(path)
    with OldProcess(path) as old:
        assert old.texts(content.LONG)[-1] == "in the log only"


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello, world\n" * 3,
        b"\x00" * 5_000,
        b"SQLite format 2\x00" * 400,
        b"PK\x03\x04" * 999,
    ],
    ids=["short text", "zeros", "another magic", "an archive"],
)
def test_a_file_that_is_not_a_database_is_not_touched(path: Path, garbage: bytes) -> None:
    path.write_bytes(garbage)
    with untouched(path), pytest.raises(NotADatabase, match=r"(?i)nothing was changed"):
        SessionDB(path)


@pytest.mark.parametrize("part", [0.05, 0.5, 0.99])
@pytest.mark.parametrize("name", ["v11", "built-v8-rollback-journal"])
def test_a_file_that_was_cut_off_is_not_touched(name: str, path: Path, part: float) -> None:
    make(name, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    with untouched(path), pytest.raises(StoreCorrupt, match=r"(?i)nothing was changed"):
        SessionDB(path)


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE bookmarks (url TEXT)",),
        ("CREATE TABLE sessions (id TEXT, token TEXT)", "CREATE TABLE messages (id TEXT)"),
        (
            "CREATE TABLE sessions (id TEXT, user TEXT)",
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT)",
            "CREATE TABLE schema_version (version TEXT)",
        ),
        (
            "CREATE TABLE sessions (id TEXT, source TEXT, started_at REAL)",
            "CREATE TABLE messages (id INTEGER, session_id, role, content, timestamp)",
            "CREATE TABLE schema_version (version TEXT)",
            "INSERT INTO schema_version VALUES ('2026.1-beta')",
        ),
    ],
    ids=["other tables", "same names", "same names and a version", "another kind of version"],
)
def test_a_database_of_another_program_is_not_touched(
    path: Path, statements: tuple[str, ...]
) -> None:
    edit(path, *statements)
    with untouched(path), pytest.raises(SchemaRefused, match="a database of another program"):
        SessionDB(path)


def test_a_newer_store_is_read_and_not_written(path: Path) -> None:
    with SessionDB(path) as db:
        db.create_session("s", "cli")
    edit(path, "PRAGMA user_version = 99")
    with untouched(path), pytest.raises(SchemaRefused, match="Update this program"):
        SessionDB(path)
    with SessionDB(path, read_only=True) as db:
        assert db.session_count() == 1


def test_an_old_file_opened_for_reading_says_what_to_do(path: Path) -> None:
    make("v11", path)
    with untouched(path), pytest.raises(StoreReadOnly, match="Open it once for writing"):
        SessionDB(path, read_only=True)


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with SessionDB(path) as db:
        db.create_session("s", "cli")
    with SessionDB(path) as db:
        assert db.session_count() == 1
    assert not list(path.parent.glob("*.bak"))


@pytest.mark.parametrize("by_link", [False, True], ids=["by name", "by link"])
def test_a_store_that_was_emptied_is_not_a_new_one(path: Path, by_link: bool) -> None:
    with SessionDB(path) as db:
        db.create_session("s", "cli")
    path.write_bytes(b"")
    name = path
    if by_link:
        name = path.parent / "elsewhere" / "link.db"
        name.parent.mkdir()
        name.symlink_to(path)
    for read_only in (False, True):
        with (
            untouched(path),
            pytest.raises(StoreCorrupt, match=r"it is empty.*hermes backup list.*remove the file"),
        ):
            SessionDB(name, read_only=read_only)
    path.unlink()
    with SessionDB(name) as db:
        assert db.session_count() == 0


def test_a_store_whose_tables_were_in_a_log_that_is_gone(path: Path) -> None:
    write_and_die(path, "s", "only in the log")
    Path(f"{path}-wal").write_bytes(b"")
    with untouched(path), pytest.raises(StoreCorrupt, match="it has no tables any more"):
        SessionDB(path)
    [finding] = check(path).findings
    assert finding.detail == "it has no tables, but a store was here"
    with untouched(path), pytest.raises(NotADatabase, match="restore a backup"):
        repair(path)


def test_a_file_with_two_names_is_read_and_not_written(path: Path) -> None:
    # Each name would have a log of its own, and what one holds would be lost under the other.
    with SessionDB(path) as db:
        db.create_session("s", "cli")
    other = path.with_name("other.db")
    other.hardlink_to(path)
    for name in (path, other):
        with untouched(path), pytest.raises(StoreUnreachable, match=r"2 names \(hard links\)"):
            SessionDB(name)
        with SessionDB(name, read_only=True) as db:
            assert db.session_count() == 1
    other.unlink()
    with SessionDB(path) as db:
        db.create_session("t", "cli")


@pytest.mark.parametrize("durability", ["Full", "fast", 1])
def test_an_unknown_durability_is_refused(path: Path, durability: Any) -> None:
    with pytest.raises(InvalidInput, match="Choose one of: full, normal"):
        SessionDB(path, durability=durability)
    assert not path.exists()


@pytest.mark.parametrize("limit", [0, -1, 1.5, "8MB", True])
def test_a_limit_that_is_not_a_number_of_bytes(path: Path, limit: Any) -> None:
    with pytest.raises(InvalidInput, match="a number of bytes above 0"):
        SessionDB(path, max_message_bytes=limit)
    assert not path.exists()
