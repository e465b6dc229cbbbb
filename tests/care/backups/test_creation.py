"""Creating and verifying backups."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import BackupRefused, StoreCorrupt, StoreLocked
from hermes_sessions.storage.care.backups.backup_directory import (
    find_backup,
    list_backups,
    lock_backup_directory,
)
from hermes_sessions.storage.care.backups.creation import create_backup
from hermes_sessions.storage.care.backups.portable_format import (
    BESIDE,
    DECLARED,
    EXCLUDED_TABLES,
    INCLUDED_TABLES,
    names,
)
from hermes_sessions.storage.care.backups.verification import verify_backup
from tests.care.backups.sample_stores import everything, fill, talk
from tests.storage.transfer.stores import KINDS, NewStore, opened

FORMS = [("sqlite", False), *((kind, True) for kind in KINDS)]


@pytest.mark.parametrize(("kind", "portable"), FORMS)
def test_a_backup_says_what_it_holds(
    kind: str, portable: bool, new_store: NewStore, directory: Path
) -> None:
    with opened(new_store(kind)) as db:
        fill(db)
        wanted = {table: len(rows) for table, rows in everything(db.provider).items()}
        assert all(wanted.values())
        made = create_backup(db, directory, portable=portable, now=lambda: 1_800_000_000.5)
    assert made.counts == wanted
    assert made.state == "complete"
    assert made.provider == kind
    assert made.kind == ("portable" if portable else "image")
    assert made.created == 1_800_000_000.5
    assert made.name.startswith("20270115T080000Z-")
    assert (made.left_out, made.unsummed, made.reason) == ({}, 0, "asked")
    assert list_backups(directory) == [made]
    assert verify_backup(made.path) == made
    # Nothing else is left, and only its owner may read it.
    assert sorted(path.name for path in directory.iterdir()) == [".lock", made.name]
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_every_table_and_column_is_carried_or_said_not_to_be() -> None:
    with SessionDB(":memory:") as db, db.provider.read() as tx:
        tables = {
            row[0]
            for row in tx.all(
                "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' "
                "AND name NOT LIKE 'sqlite_%'"
            )
        }
        # A fixed number that other programs look for.
        assert tables - {"schema_version"} <= {*DECLARED}
        assert {*DECLARED} == {*EXCLUDED_TABLES, *(table.name for table in INCLUDED_TABLES)}
        for table in INCLUDED_TABLES:
            rows = tx.all(f"SELECT name FROM pragma_table_xinfo('{table.name}')")
            computed = {"title_key", "archived", "revision"}
            left_out = computed | {"fence"} if table.name == "sessions" else set[str]()
            assert {row[0] for row in rows} - {*names(table)} == left_out, table.name
    assert {"mailbox", "outbox", "topics", "identities", "senders", "state_meta"} <= {
        table.name for table in BESIDE
    }


def test_a_store_in_memory(directory: Path) -> None:
    with SessionDB(":memory:") as db:
        talk(db)
        made = create_backup(db, directory)
    assert (made.sessions, made.messages) == (4, 12)


def test_an_empty_store(tmp_path: Path, directory: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        for portable in (False, True):
            made = create_backup(db, directory, portable=portable)
            assert verify_backup(made.path).sessions == 0


def test_values_that_only_sqlite_keeps(tmp_path: Path, directory: Path) -> None:
    """An image holds them, without a checksum; a portable backup is refused with their place."""
    with SessionDB(tmp_path / "state.db") as db:
        talk(db)
        db.provider.write(
            lambda tx: tx.run("UPDATE messages SET content = x'ff00' WHERE session_id = 's002'")
        )
        made = create_backup(db, directory)
        assert made.unsummed == 1
        assert verify_backup(made.path) == made
        with pytest.raises(ValueError, match=r"Session s002: messages\.content"):
            create_backup(db, directory, portable=True)
    assert list_backups(directory) == [made]


def test_rows_without_a_session_are_not_left_out_silently(tmp_path: Path, directory: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        talk(db)

        def orphan(connection: object) -> None:
            connection.execute("PRAGMA foreign_keys = OFF")  # type: ignore[attr-defined]
            connection.execute(  # type: ignore[attr-defined]
                "INSERT INTO messages (session_id, role, timestamp, ordinal) "
                "VALUES ('x', 'user', 1, 1)"
            )
            connection.execute("PRAGMA foreign_keys = ON")  # type: ignore[attr-defined]

        db.provider.with_writer(orphan)  # type: ignore[attr-defined]
        assert create_backup(db, directory).counts["messages"] == 13
        portable = create_backup(db, directory, portable=True)
    assert portable.counts["messages"] == 12
    assert portable.left_out == {"messages": 1}


def test_a_damaged_store_is_not_backed_up(tmp_path: Path, directory: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        talk(db, sessions=40, messages=20)
        page_size, root = db.provider.with_writer(  # type: ignore[attr-defined]
            lambda connection: (
                connection.pragma("page_size"),
                connection.execute(
                    "SELECT rootpage FROM sqlite_master WHERE name = 'idx_messages_ordinal'"
                ).fetchone()[0],
            )
        )
    with path.open("r+b") as file:
        file.seek((root - 1) * page_size + 8)
        file.write(os.urandom(64))
    with SessionDB(path, read_only=True) as db, pytest.raises(StoreCorrupt, match="hermes repair"):
        create_backup(db, directory)
    assert list_backups(directory) == []
    assert [path.name for path in directory.iterdir()] == [".lock"]


def test_one_at_a_time(tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_sessions.storage.care.backups.creation.PATIENCE", 0.0)
    with (
        SessionDB(tmp_path / "state.db") as db,
        lock_backup_directory(directory, 0),
        pytest.raises(StoreLocked, match="Another process is creating or removing"),
    ):
        create_backup(db, directory)


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        SessionDB(tmp_path / "state.db") as db,
        pytest.raises(BackupRefused, match="--to"),
    ):
        create_backup(db, tmp_path / "file")


def test_what_a_killed_process_left_is_cleared(tmp_path: Path, directory: Path) -> None:
    directory.mkdir()
    (directory / ".x.hsb.unfinished").write_text("half")
    (directory / ".abc.unpacked").mkdir()
    (directory / ".abc.unpacked" / "image.db").write_text("half")
    (directory / "notes.txt").write_text("mine")
    with SessionDB(tmp_path / "state.db") as db:
        made = create_backup(db, directory)
    left = sorted(path.name for path in directory.iterdir())
    assert left == [".lock", made.name, "notes.txt"]


def test_finding_one(tmp_path: Path, directory: Path) -> None:
    with pytest.raises(BackupRefused, match="hermes backup create"):
        find_backup("latest", directory)
    with SessionDB(tmp_path / "state.db") as db:
        old = create_backup(db, directory, now=lambda: 1000.0)
        new = create_backup(db, directory, now=lambda: 2000.0)
    assert find_backup("latest", directory) == new.path
    assert find_backup(old.name, directory) == old.path
    assert find_backup(old.name.removesuffix(".hsb"), directory) == old.path
    assert find_backup(str(old.path), tmp_path) == old.path
    with pytest.raises(BackupRefused, match="no backup 'nonsense'"):
        find_backup("nonsense", directory)
