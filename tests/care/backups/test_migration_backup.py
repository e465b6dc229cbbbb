"""A store is backed up by one process before its tables change, or nothing changes."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hermes_sessions import SessionDB
from hermes_sessions.errors import DiskFull, StoreLocked, StoreUnavailable
from hermes_sessions.storage.care.backups import backup_directory, migration_backup
from hermes_sessions.storage.care.backups.backup_directory import (
    Backup,
    list_backups,
    lock_backup_directory,
)
from hermes_sessions.storage.care.backups.restore import restore_backup
from hermes_sessions.storage.care.backups.verification import verify_backup
from hermes_sessions.storage.mysql import migrations as mysql_migrations
from hermes_sessions.storage.postgresql import migrations as postgresql_migrations
from hermes_sessions.storage.servers.migrations import Migration
from hermes_sessions.storage.sqlite import migrations as sqlite_migrations
from tests.care.backups.programs import start
from tests.care.backups.sample_stores import everything, everything_in, talk
from tests.storage.transfer.stores import KINDS, NewStore, opened

STEP = "9999_later"
CREATE = "CREATE TABLE IF NOT EXISTS later (number INTEGER)"


@contextmanager
def with_another_step(*, finishing: bool = False) -> Iterator[None]:
    """A version of the program that has one step more."""
    step = Migration(STEP, (CREATE,), finishing=finishing)
    ours = sqlite_migrations.Migration(STEP, CREATE)
    with (
        mock.patch.object(sqlite_migrations, "MIGRATIONS", (*sqlite_migrations.MIGRATIONS, ours)),
        mock.patch.object(
            postgresql_migrations, "MIGRATIONS", (*postgresql_migrations.MIGRATIONS, step)
        ),
        mock.patch.object(mysql_migrations, "MIGRATIONS", (*mysql_migrations.MIGRATIONS, step)),
    ):
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(path))
    return path


def configure(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(text, encoding="utf-8")


def made_by(kind: str, home: Path, tmp_path: Path) -> list[Backup]:
    """A SQLite file that is not the configured store has its backups beside it."""
    return list_backups(tmp_path / "backups" if kind == "sqlite" else home / "backups")


def steps_of(url: str) -> tuple[str, ...]:
    with opened(url, read_only=True) as db:
        return db.provider.steps().taken


@pytest.mark.parametrize("kind", KINDS)
def test_a_verified_backup_first(
    kind: str, home: Path, tmp_path: Path, new_store: NewStore
) -> None:
    url = new_store(kind)
    with opened(url) as db:
        talk(db)
        wanted = everything(db.provider)
    assert made_by(kind, home, tmp_path) == []
    with with_another_step():
        with opened(url) as db:
            assert everything(db.provider) == wanted
            assert STEP in db.provider.steps().taken
        # Once.
        opened(url).close()
    [backup] = made_by(kind, home, tmp_path)
    assert backup.reason == "before migration"
    assert STEP not in backup.steps
    assert (backup.sessions, backup.messages) == (4, 12)
    verify_backup(backup.path)
    restore_backup(backup.path, tmp_path / "restored.db")
    assert everything_in(tmp_path / "restored.db") == wanted


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("kind", KINDS)
def test_progress_is_logged(
    kind: str,
    new_store: NewStore,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = new_store(kind)
    with opened(url) as db:
        talk(db)
    monkeypatch.setattr(migration_backup, "_LARGE", 0)
    with with_another_step(), caplog.at_level(logging.INFO):
        opened(url).close()
    (announced,) = [r for r in caplog.records if "it is backed up and then migrated" in r.message]
    assert announced.levelno == logging.WARNING
    shown = [r.message for r in caplog.records if "backup before a migration: " in r.message]
    assert len(shown) == len(set(shown))
    assert any(message.endswith("Verifying 100 %") for message in shown), shown


def test_the_configured_store_has_it_among_the_others(home: Path) -> None:
    configure(home, "backups: {directory: aside}\n")
    with SessionDB() as db:
        talk(db)
    with with_another_step():
        SessionDB().close()
    [backup] = list_backups(home / "aside")
    assert backup.kind == "image"


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_before_finishing_steps(kind: str, home: Path, tmp_path: Path, new_store: NewStore) -> None:
    url = new_store(kind)
    with opened(url) as db:
        talk(db)
    with with_another_step(finishing=True), opened(url) as db:
        assert made_by(kind, home, tmp_path) == []
        assert db.provider.finish_steps() == (STEP,)
    assert len(made_by(kind, home, tmp_path)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_without_rows_has_nothing_to_lose(
    kind: str, home: Path, tmp_path: Path, new_store: NewStore
) -> None:
    url = new_store(kind)
    opened(url).close()
    with with_another_step():
        opened(url).close()
    assert made_by(kind, home, tmp_path) == []
    assert STEP in steps_of(url)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text",
    ["backups: {before_migration: false}\n", "backups: {before_migration_max_bytes: 1MB}\n"],
    ids=["off", "too large"],
)
def test_without_one_it_is_said_loudly(
    kind: str,
    text: str,
    home: Path,
    tmp_path: Path,
    new_store: NewStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = new_store(kind)
    with opened(url) as db:
        db.create_session("s", "cli")
        db.append_message("s", "user", random.Random(1).randbytes(2_000_000).hex())
    configure(home, text)
    caplog.set_level(logging.WARNING)
    with with_another_step():
        opened(url).close()
    assert "WITHOUT a backup" in caplog.text
    assert made_by(kind, home, tmp_path) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.fault(
    "No room for the backup before a migration",
    "Nothing is changed; the text says what to do",
)
def test_without_room_nothing_is_changed(
    kind: str, home: Path, tmp_path: Path, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_store(kind)
    with opened(url) as db:
        talk(db)
    directory = (tmp_path if kind == "sqlite" else home) / "backups"
    directory.write_text("in the way")
    with with_another_step(), pytest.raises(StoreUnavailable, match="before_migration to false"):
        opened(url)
    directory.unlink()
    assert STEP not in steps_of(url)
    if kind == "sqlite":
        monkeypatch.setattr(backup_directory, "_SPARE_BYTES", 2**70)
        with with_another_step(), pytest.raises(DiskFull, match="its backup failed"):
            opened(url)
        monkeypatch.undo()
        monkeypatch.setenv("HERMES_HOME", str(home))
    with with_another_step():
        opened(url).close()
    assert STEP in steps_of(url)


def test_a_broken_configuration_does_not_concern_a_file_by_its_path(
    home: Path, tmp_path: Path
) -> None:
    with SessionDB(tmp_path / "x.db") as db:
        talk(db)
    configure(home, "backups: {keep: nonsense}\n")
    with with_another_step():
        SessionDB(tmp_path / "x.db").close()
    assert len(list_backups(tmp_path / "backups")) == 1


def test_one_that_is_fresh_is_used_again(home: Path, tmp_path: Path) -> None:
    """A service that dies in a migration, again and again, does not fill the disk."""
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        talk(db)
    broken = sqlite_migrations.Migration(STEP, "CREATE nonsense")
    migrations = (*sqlite_migrations.MIGRATIONS, broken)
    with mock.patch.object(sqlite_migrations, "MIGRATIONS", migrations):
        for _ in range(3):
            with pytest.raises(Exception, match="nonsense"):
                SessionDB(path)
    assert len(made_by("sqlite", home, tmp_path)) == 1
    with SessionDB(path) as db:
        db.append_message("s000", "user", "more")
    with with_another_step():
        SessionDB(path).close()
    assert [backup.messages for backup in made_by("sqlite", home, tmp_path)] == [13, 12]


def test_who_waits_for_too_long(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with SessionDB(path) as db:
        talk(db)
    with (
        lock_backup_directory(tmp_path / "backups", 0),
        with_another_step(),
        pytest.raises(StoreLocked, match="is being backed up by another process"),
    ):
        SessionDB(path, lock_timeout=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_of_several_processes_makes_it(
    kind: str, home: Path, tmp_path: Path, new_store: NewStore
) -> None:
    url = new_store(kind)
    with opened(url) as db:
        talk(db)
    others: list[Any] = [start("migrate", url) for _ in range(3)]
    try:
        for other in others:
            assert other.said() == "ready"
        for other in others:
            other.tell()
        assert [other.succeeded() for other in others] == [["4"]] * 3
    finally:
        for other in others:
            other.__exit__(None, None, None)
    assert len(made_by(kind, home, tmp_path)) == 1
