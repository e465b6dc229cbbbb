"""Reading the contents of a backup and restoring parts of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import BackupDamaged
from hermes_sessions.storage.care.backups import (
    backups_containing,
    create_backup,
    list_backups,
    opened_as_store,
    remove_backup,
    rewrite_backup,
    verify_backup,
)
from hermes_sessions.storage.care.backups.backup_directory import Backup
from hermes_sessions.storage.provider import SessionDBProvider
from tests.care.backups.sample_stores import everything, talk


@pytest.fixture(params=["image", "portable"])
def made(request: pytest.FixtureRequest, tmp_path: Path, directory: Path) -> Backup:
    with SessionDB(tmp_path / "state.db") as db:
        talk(db)
        db.create_session("secret", "cli", user_id="eve")
        db.append_message("secret", "user", "Sesame, open! " * 50)
        return create_backup(db, directory, portable=request.param == "portable")


def test_which_ones_hold_a_session(made: Backup, tmp_path: Path) -> None:
    with SessionDB(tmp_path / "empty.db") as db:
        create_backup(db, made.path.parent)
    (made.path.parent / "broken.hsb").write_bytes(b"HERMES")
    found, unknown = backups_containing(made.path.parent, ["secret", "s001", "absent"])
    assert [(one.backup, one.sessions) for one in found] == [(made, ("s001", "secret"))]
    assert [one.name for one in unknown] == ["broken.hsb"]
    assert backups_containing(made.path.parent, ["absent"])[0] == []


def test_as_a_store(made: Backup, tmp_path: Path) -> None:
    before = made.path.read_bytes()
    with SessionDB(tmp_path / "state.db") as db, opened_as_store(made.path) as provider:
        assert everything(provider) == everything(db.provider)
    assert made.path.read_bytes() == before
    assert sorted(each.name for each in made.path.parent.iterdir()) == [".lock", made.name]


def test_without_a_session(made: Backup, tmp_path: Path) -> None:
    new = rewrite_backup(made.path, lambda provider: _remove(provider, "secret"))
    assert (new.path, new.created, new.kind, new.store) == (
        made.path,
        made.created,
        made.kind,
        made.store,
    )
    assert (new.sessions, new.messages) == (4, 12)
    assert verify_backup(made.path) == new
    assert list_backups(made.path.parent) == [new]
    assert backups_containing(made.path.parent, ["secret"]) == ([], [])
    with opened_as_store(made.path) as provider:
        assert [row[0] for row in everything(provider)["sessions"]] == [
            "s000",
            "s001",
            "s002",
            "s003",
        ]
    assert sorted(each.name for each in made.path.parent.iterdir()) == [".lock", made.name]


def _remove(provider: SessionDBProvider, session_id: str) -> None:
    db = SessionDB(provider=provider)
    db.delete_session(session_id)


def test_a_change_that_fails_leaves_the_backup(made: Backup) -> None:
    def fail(_provider: SessionDBProvider) -> None:
        raise RuntimeError("no")

    before = made.path.read_bytes()
    with pytest.raises(RuntimeError):
        rewrite_backup(made.path, fail)
    assert made.path.read_bytes() == before
    assert sorted(each.name for each in made.path.parent.iterdir()) == [".lock", made.name]


def test_one_that_cannot_be_read_can_be_removed(made: Backup) -> None:
    made.path.write_bytes(made.path.read_bytes()[:-5])
    with pytest.raises(BackupDamaged):
        rewrite_backup(made.path, lambda _provider: None)
    remove_backup(made.path)
    assert list_backups(made.path.parent) == []
