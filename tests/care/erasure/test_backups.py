"""Erasure edits backups in place: the rest of each backup stays valid."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.storage.care.backups.backup_contents import opened_as_store
from hermes_sessions.storage.care.backups.backup_directory import (
    list_backups,
    lock_backup_directory,
)
from hermes_sessions.storage.care.backups.creation import create_backup
from hermes_sessions.storage.care.backups.verification import verify_backup
from hermes_sessions.storage.care.erasure.coordinator import Erasure
from hermes_sessions.storage.care.erasure.file_places import BackupPlace
from hermes_sessions.storage.care.erasure.receipts import ErasureReceipts
from hermes_sessions.storage.care.erasure.targets import ErasureSubject, Kind
from hermes_sessions.storage.transfer.copy_ledger import identity
from tests.care.erasure.disk_scan import found_in
from tests.care.erasure.scenario import ANN, ANNS_CHAT, BOB, SECRET, ErasureScenario, everything


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def erasure_on(db: SessionDB, directory: Path) -> Erasure:
    return Erasure(db.store, [BackupPlace(directory, identity(db.provider))])


def rows_in(path: Path) -> str:
    with opened_as_store(path) as provider, SessionDB(provider=provider) as db:
        return everything(db)


@pytest.mark.parametrize("portable", [False, True])
def test_a_user_is_erased_from_backups(
    db: SessionDB, directory: Path, tmp_path: Path, portable: bool
) -> None:
    """Of every backup of the store, with rows that the store itself has no more."""
    scenario = ErasureScenario(db, tmp_path)
    sessions = scenario.fill()
    db.create_session("earlier", "telegram", user_id=ANN)
    db.append_message("earlier", "user", f"{SECRET} then")
    backup = create_backup(db.provider, directory, portable=portable, now=db.store.clock)
    db.delete_session("earlier")
    assert SECRET in rows_in(backup.path)
    erasure = erasure_on(db, directory)
    assert erasure.plan(ErasureSubject("user", ANN)).places["backups"] == {"backups": 1}
    receipt = erasure.forget(ErasureSubject("user", ANN))
    step = receipt.step("backups")
    assert step is not None
    assert (receipt.status, step.removed) == ("done", {"backups": 1})
    [left] = list_backups(directory)
    assert (left.state, left.created, left.kind) == ("complete", backup.created, backup.kind)
    verify_backup(left.path)
    found = rows_in(left.path)
    for needle in (SECRET, ANN, sessions["ann"]):
        assert needle not in found, needle
    assert BOB in found
    assert "it is noon" in found
    assert found_in(directory, [SECRET, ANN]) == []
    assert erasure.plan(ErasureSubject("user", ANN)).is_empty


def test_a_backup_that_cannot_be_read(db: SessionDB, directory: Path, tmp_path: Path) -> None:
    """It is pending until the operator has decided about it."""
    ErasureScenario(db, tmp_path).fill()
    backup = create_backup(db.provider, directory, now=db.store.clock)
    content = backup.path.read_bytes()
    backup.path.write_bytes(content[: len(content) // 2])
    erasure = erasure_on(db, directory)
    receipt = erasure.forget(ErasureSubject("user", ANN))
    assert [step.place for step in receipt.pending] == ["backups"]
    assert str(backup.path) in str(receipt.pending[0].why)
    assert erasure.resume(receipt.id).status == "pending"
    backup.path.unlink()
    assert erasure.resume(receipt.id).status == "done"
    assert ANN not in everything(db)


def test_a_disk_that_comes_back(db: SessionDB, directory: Path, tmp_path: Path) -> None:
    """What was made meanwhile is left as it is, as far as it is new."""
    scenario = ErasureScenario(db, tmp_path)
    scenario.fill()
    backup = create_backup(db.provider, directory, now=db.store.clock)
    # In the place of the folder is something that cannot be read.
    moved = tmp_path / "moved"
    shutil.move(directory, moved)
    directory.write_text("")
    erasure = erasure_on(db, directory)
    receipt = erasure.forget(ErasureSubject("user", ANN))
    assert [step.place for step in receipt.pending] == ["backups"]
    directory.unlink()
    shutil.move(moved, directory)
    db.create_session("new", "telegram", user_id=ANN)
    db.append_message("new", "user", "back again")
    new = create_backup(db.provider, directory, now=lambda: db.store.clock() + 60)
    assert erasure.resume(receipt.id).status == "done"
    assert SECRET not in rows_in(backup.path)
    assert "back again" in rows_in(new.path)
    assert db.get_session("new") is not None


def test_backups_of_other_stores(directory: Path, tmp_path: Path) -> None:
    """They are not changed and not kept quiet about: the home may have been moved."""
    for name in ("one", "two"):
        with SessionDB(tmp_path / f"{name}.db") as db:
            db.create_session("s", "telegram", user_id=ANN)
            db.append_message("s", "user", SECRET)
            create_backup(db.provider, directory)
    with SessionDB(tmp_path / "one.db") as one:
        receipt = erasure_on(one, directory).forget(ErasureSubject("user", ANN))
        held = {b.path: SECRET in rows_in(b.path) for b in list_backups(directory)}
        [other] = [path for path, holds in held.items() if holds]
        [step] = receipt.pending
        assert (step.place, step.removed) == ("backups", {"backups": 1})
        assert f"{other} is a backup of another store" in str(step.why)
        assert "two.db" in str(step.why)
        with SessionDB(tmp_path / "two.db") as two:
            assert erasure_on(two, directory).forget(ErasureSubject("user", ANN)).status == "done"
        assert erasure_on(one, directory).resume(receipt.id).status == "done"


def test_a_backup_that_is_being_made_meanwhile(
    db: SessionDB, directory: Path, tmp_path: Path
) -> None:
    """It may be of a state from before; so nothing is called done before it is there."""
    ErasureScenario(db, tmp_path).fill()
    # The lock is not released while we wait, so waiting is pointless.
    erasure = Erasure(db.store, [BackupPlace(directory, identity(db.provider), patience=0)])
    with lock_backup_directory(directory, 1):
        receipt = erasure.forget(ErasureSubject("user", ANN))
    assert [step.place for step in receipt.pending] == ["backups"]
    assert "creating or removing backups" in str(receipt.pending[0].why)
    assert erasure.resume(receipt.id).status == "done"


def test_what_a_killed_process_has_unpacked(db: SessionDB, directory: Path, tmp_path: Path) -> None:
    ErasureScenario(db, tmp_path).fill()
    left = directory / ".abc.unpacked"
    left.mkdir(parents=True)
    (left / "store.db").write_text(SECRET)
    assert erasure_on(db, directory).forget(ErasureSubject("user", ANN)).status == "done"
    assert found_in(directory, [SECRET]) == []


@pytest.mark.parametrize(("kind", "name"), [("user", ANN), ("chat", ANNS_CHAT)])
def test_a_backup_of_a_state_in_which_it_was_begun(
    db: SessionDB, directory: Path, tmp_path: Path, kind: Kind, name: str
) -> None:
    """It was made after the request, and before anything was erased: lanes and all are in it."""
    ErasureScenario(db, tmp_path).fill()
    receipt, targets = ErasureReceipts(db.store).begin(ErasureSubject(kind, name), "begun")
    assert targets.lanes
    backup = create_backup(db.provider, directory, now=lambda: db.store.clock() + 60)
    assert erasure_on(db, directory).resume(receipt.id).status == "done"
    found = rows_in(backup.path)
    assert f"my {SECRET} hobby" not in found
    assert f"a {SECRET}, how nice" not in found
    assert name not in found


def test_a_directory_that_cannot_be_written(db: SessionDB, directory: Path, tmp_path: Path) -> None:
    """No backup can be made there, so none holds the user's data."""
    ErasureScenario(db, tmp_path).fill()
    directory.mkdir()
    # A directory in place of the lock file keeps every process from taking the lock.
    (directory / ".lock").mkdir()
    assert erasure_on(db, directory).forget(ErasureSubject("user", ANN)).status == "done"
