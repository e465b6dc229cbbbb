"""Rotation: which backups are deleted, and which are always kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions import SessionDB
from hermes_sessions.errors import StoreLocked
from hermes_sessions.storage.care.backups import rotation
from hermes_sessions.storage.care.backups.backup_directory import (
    Backup,
    list_backups,
    lock_backup_directory,
)
from hermes_sessions.storage.care.backups.creation import create_backup
from hermes_sessions.storage.care.backups.rotation import BackupRule, choose, prune_backups

DAY = 86400.0
NOW = 1_000 * DAY

BACKUPS = st.lists(
    st.builds(
        Backup,
        path=st.integers(0, 10**6).map(lambda number: Path(f"{number}.hsb")),
        state=st.sampled_from(["complete", "complete", "complete", "damaged", "newer"]),
        size=st.integers(0, 1000),
        created=st.integers(0, 1000).map(lambda day: day * DAY),
        store=st.sampled_from(["a", "b"]),
    ),
    max_size=12,
    unique_by=lambda backup: backup.path,
)
RULES = st.builds(
    BackupRule,
    keep=st.none() | st.integers(1, 5),
    max_age_days=st.none() | st.integers(1, 900),
    max_bytes=st.none() | st.integers(0, 4000),
)


@given(BACKUPS, RULES)
def test_what_stays_whatever_the_rule(backups: list[Backup], rule: BackupRule) -> None:
    gone = {going.backup.path for going in choose(backups, rule, NOW)}
    for store in ("a", "b"):
        whole = [b for b in backups if b.state == "complete" and b.store == store]
        stays = [b for b in whole if b.path not in gone]
        if whole:
            # The newest is there, and what is there is newer than what is not.
            newest = max(whole, key=lambda b: (b.created, b.name))
            assert newest in stays
        if rule.keep is not None:
            assert len(stays) <= max(rule.keep, 1)
        if rule.max_age_days is not None:
            old = [b for b in stays if b.created < NOW - rule.max_age_days * DAY]
            assert len(old) <= 1
    assert all(b.path not in gone for b in backups if b.state != "complete")
    if rule.max_bytes is not None:
        left = [b for b in backups if b.state == "complete" and b.path not in gone]
        stores = {b.store for b in left}
        assert sum(b.size for b in left) <= rule.max_bytes or len(left) == len(stores)


@given(BACKUPS, RULES)
def test_a_second_time_nothing_goes(backups: list[Backup], rule: BackupRule) -> None:
    gone = {going.backup.path for going in choose(backups, rule, NOW)}
    assert choose([b for b in backups if b.path not in gone], rule, NOW) == []


@given(BACKUPS)
def test_without_a_rule_everything_stays(backups: list[Backup]) -> None:
    assert choose(backups, BackupRule(), NOW) == []


def make(path: Path, directory: Path, *days: int) -> list[Backup]:
    with SessionDB(path) as db:
        return [create_backup(db, directory, now=lambda day=day: day * DAY) for day in days]


def test_files_go(tmp_path: Path, directory: Path) -> None:
    backups = make(tmp_path / "a.db", directory, 1, 2, 3)
    other = make(tmp_path / "b.db", directory, 1)
    (directory / "mine.txt").write_text("not yours")
    dry = prune_backups(directory, BackupRule(keep=1), dry_run=True, now=lambda: NOW)
    assert [going.backup for going in dry.gone] == backups[:2]
    assert len(list_backups(directory)) == 4
    done = prune_backups(directory, BackupRule(keep=1), now=lambda: NOW)
    assert done == dry
    assert list_backups(directory) == [backups[2], *other]
    assert (directory / "mine.txt").exists()


def test_a_damaged_newest_one_does_not_cost_the_good_ones(tmp_path: Path, directory: Path) -> None:
    """It looks whole at its head and end; the good ones must not go for its sake."""
    old, good, bad = make(tmp_path / "a.db", directory, 1, 2, 3)
    content = bytearray(bad.path.read_bytes())
    content[100] ^= 1
    bad.path.write_bytes(content)
    done = prune_backups(directory, BackupRule(keep=1), now=lambda: NOW)
    assert [going.backup for going in done.gone] == [old]
    assert list_backups(directory) == [bad, good]


def test_not_while_another_makes_one(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "PATIENCE", 0.0)
    with lock_backup_directory(directory, 0), pytest.raises(StoreLocked):
        prune_backups(directory, BackupRule(keep=1))


def test_no_directory(directory: Path) -> None:
    assert prune_backups(directory, BackupRule(keep=1)).gone == []
    assert not directory.exists()
