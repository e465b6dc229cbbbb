"""Restoring backups from every kind of store to every kind, and never over a store in use."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import (
    BackupDamaged,
    BackupRefused,
    InvalidInput,
    SchemaRefused,
    StoreLocked,
)
from hermes_sessions.storage.care.backups.creation import create_backup
from hermes_sessions.storage.care.backups.restore import restore_backup
from hermes_sessions.storage.repositories.processes import Processes
from hermes_sessions.storage.sqlite import store_image
from tests.care.backups.programs import start
from tests.care.backups.sample_stores import everything, everything_in, fill, talk
from tests.storage.sqlite.integrity import require_sound
from tests.storage.transfer.stores import KINDS, NewStore, opened


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize(("source", "portable"), [("sqlite", False), *((k, True) for k in KINDS)])
def test_every_direction(
    source: str, portable: bool, target: str, new_store: NewStore, directory: Path
) -> None:
    with opened(new_store(source)) as db:
        fill(db)
        wanted = everything(db.provider)
        made = create_backup(db, directory, portable=portable)
    url = new_store(target)
    restored = restore_backup(made.path, url)
    assert (restored.backup, restored.kept) == (made, None)
    assert everything_in(url) == wanted
    with opened(url) as db:
        # Ids continue above those that were restored, and what was restored is found.
        assert db.append_message("s001", "user", "a needle") > max(
            row[0] for row in wanted["messages"]
        )
        assert len(db.search_messages("needle")) == 1
        assert len(db.search_messages("quoted")) == 12
        db.create_session("new", "cli", parent_session_id="s003")


def test_the_replaced_store_is_kept(tmp_path: Path, directory: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        talk(db)
        old = everything(db.provider)
        made = create_backup(db, directory)
        db.append_message("s000", "user", "later")
        newer = everything(db.provider)
    restored = restore_backup(made.path, path, now=lambda: 1_800_000_000.0)
    assert restored.kept == tmp_path / "state.db.replaced-20270115T080000Z"
    # Complete as one file, and without companions.
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "backups",
        "state.db",
        "state.db.gate",
        restored.kept.name,
    ]
    assert everything_in(path) == old
    assert everything_in(restored.kept) == newer
    require_sound(path)
    assert {stat.S_IMODE(each.stat().st_mode) for each in (path, restored.kept)} == {0o600}
    again = restore_backup(made.path, path, now=lambda: 1_800_000_000.0)
    assert again.kept == tmp_path / "state.db.replaced-20270115T080000Z-2"


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_store_that_another_process_uses(journal: str, tmp_path: Path, directory: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        talk(db)
        made = create_backup(db, directory)
    with start("have_open", path, journal) as other:
        assert other.said() == "open"
        with pytest.raises(StoreLocked, match=rf"in use by \S+ \({other.pid}\)"):
            restore_backup(made.path, path)
        other.tell()
        other.succeeded()
    assert not list(tmp_path.glob("*.replaced-*"))
    assert not list(tmp_path.glob("*restor*"))
    restore_backup(made.path, path)


def test_a_store_that_this_process_uses(tmp_path: Path, directory: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        made = create_backup(db, directory)
        with pytest.raises(StoreLocked, match="in use by this process"):
            restore_backup(made.path, tmp_path / "state.db")


@pytest.mark.parametrize("damage", ["header", "zeroes", "inside", "short"])
@pytest.mark.fault(
    "A damaged store is replaced by a backup",
    "The store is that of the backup; the damaged file is kept",
    on="sqlite",
)
def test_a_damaged_store_is_replaced_and_kept(damage: str, tmp_path: Path, directory: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        talk(db)
        wanted = everything(db.provider)
        made = create_backup(db, directory)
    content = bytearray(path.read_bytes())
    if damage == "header":
        content[:100] = os.urandom(100)
    elif damage == "zeroes":
        content[:] = bytes(len(content))
    elif damage == "inside":
        content[4096 : len(content) - 4096] = os.urandom(len(content) - 8192)
    else:
        content = content[:5000]
    path.write_bytes(content)
    # A dead program left it; it must not be read as the log of the new store.
    (tmp_path / "state.db-wal").write_bytes(b"the log of another time")
    restored = restore_backup(made.path, path)
    assert restored.kept is not None
    assert everything_in(path) == wanted
    require_sound(path)
    if damage in ("header", "zeroes"):
        assert restored.kept.read_bytes() == content
        log = restored.kept.with_name(restored.kept.name + "-wal")
        assert log.read_bytes() == b"the log of another time"


def test_a_log_without_its_store_is_kept(tmp_path: Path, directory: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        talk(db)
        wanted = everything(db.provider)
        made = create_backup(db, directory)
        db.append_message("s000", "user", "only in the log")
        log = (tmp_path / "state.db-wal").read_bytes()
    path.unlink()
    (tmp_path / "state.db-wal").write_bytes(log)
    restored = restore_backup(made.path, path)
    assert everything_in(path) == wanted
    assert restored.kept is not None
    assert restored.kept.with_name(restored.kept.name + "-wal").read_bytes() == log


def test_a_database_of_another_program(tmp_path: Path, directory: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        made = create_backup(db, directory)
    start("make_another_programs_file", tmp_path / "other.db").succeeded()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(SchemaRefused, match="another program"):
        restore_backup(made.path, tmp_path / "other.db")
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_store_on_a_server_that_is_not_empty(new_store: NewStore, directory: Path) -> None:
    url = new_store("postgresql")
    with opened(url) as db:
        talk(db)
        wanted = everything(db.provider)
        made = create_backup(db, directory)
    with pytest.raises(BackupRefused, match=r"not empty .* in sessions"):
        restore_backup(made.path, url)
    assert everything_in(url) == wanted


def test_a_server_on_which_a_gateway_runs(new_store: NewStore, directory: Path) -> None:
    with SessionDB(":memory:") as db:
        made = create_backup(db, directory)
    url = new_store("mysql")
    with opened(url) as db:
        Processes(db.store).register("bot", "gateway")
        with pytest.raises(StoreLocked, match=rf"gateway \(process {os.getpid()} on "):
            restore_backup(made.path, db)


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
@pytest.mark.fault(
    "A damaged backup is restored into a server",
    "Refused with a clear error; the store stays empty",
)
def test_a_damaged_backup_leaves_a_server_empty(
    kind: str, new_store: NewStore, directory: Path
) -> None:
    with SessionDB(":memory:") as db:
        talk(db)
        made = create_backup(db, directory, portable=True)
    content = bytearray(made.path.read_bytes())
    content[200] ^= 4
    made.path.write_bytes(content)
    url = new_store(kind)
    with pytest.raises(BackupDamaged):
        restore_backup(made.path, url)
    assert not any(everything_in(url).values())


def test_a_store_of_a_newer_version(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        made = create_backup(db, directory)
    monkeypatch.setattr(store_image, "KNOWN_LEVEL", 0)
    with pytest.raises(SchemaRefused, match="Update this program"):
        restore_backup(made.path, tmp_path / "other.db")
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite://host/x"])
def test_places_that_are_no_file(url: str, directory: Path) -> None:
    with SessionDB(":memory:") as db:
        made = create_backup(db, directory)
    with pytest.raises(InvalidInput, match="is not a file"):
        restore_backup(made.path, url)


def test_through_a_link(tmp_path: Path, directory: Path) -> None:
    with SessionDB(tmp_path / "real.db") as db:
        talk(db)
        made = create_backup(db, directory)
    (tmp_path / "link.db").symlink_to("real.db")
    restore_backup(made.path, tmp_path / "link.db")
    assert (tmp_path / "link.db").is_symlink()
    assert list(tmp_path.glob("real.db.replaced-*"))
