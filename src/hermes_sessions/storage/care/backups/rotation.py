"""Rotation of backups: which ones to remove, by number, age and size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hermes_sessions.errors import BackupRefused
from hermes_sessions.storage.care.backups.backup_directory import (
    Backup,
    list_backups,
    lock_backup_directory,
)
from hermes_sessions.storage.care.backups.creation import PATIENCE
from hermes_sessions.storage.care.backups.verification import check_digests
from hermes_sessions.storage.fsync import sync_directory
from hermes_sessions.storage.logs import Logger

logger = Logger(__name__)

_DAY: Final = 86400.0


class BackupRule(NamedTuple):
    """Limits for backups; None means no limit."""

    #: Number of backups per store.
    keep: int | None = None
    max_age_days: float | None = None
    #: Total size of all backups.
    max_bytes: int | None = None


class BackupToPrune(NamedTuple):
    """A backup to remove, and why."""

    backup: Backup
    why: str


class PruneResult(NamedTuple):
    """The result of a rotation, or of its dry run."""

    gone: list[BackupToPrune]
    kept: list[Backup]


def choose(backups: Iterable[Backup], rule: BackupRule, now: float) -> list[BackupToPrune]:
    """Return the backups to remove, oldest first. Pure.

    Only complete backups are counted and removed, and never the newest of a store.
    """
    whole = sorted(
        (backup for backup in backups if backup.state == "complete"),
        key=lambda backup: (backup.created, backup.name),
        reverse=True,
    )
    going: dict[Path, BackupToPrune] = {}
    seen: dict[str, int] = {}
    for backup in whole:
        number = seen[backup.store] = seen.get(backup.store, 0) + 1
        if number == 1:
            continue
        if rule.keep is not None and number > rule.keep:
            going[backup.path] = BackupToPrune(backup, f"not among the newest {rule.keep}")
        elif rule.max_age_days is not None and backup.created < now - rule.max_age_days * _DAY:
            going[backup.path] = BackupToPrune(backup, f"older than {rule.max_age_days:g} days")
    if rule.max_bytes is not None:
        _choose_by_size(whole, rule.max_bytes, going)
    return sorted(going.values(), key=lambda one: (one.backup.created, one.backup.name))


def _choose_by_size(
    whole: Sequence[Backup], max_bytes: int, going: dict[Path, BackupToPrune]
) -> None:
    total = sum(backup.size for backup in whole if backup.path not in going)
    newest: dict[str, Path] = {}
    for backup in whole:
        newest.setdefault(backup.store, backup.path)
    for backup in reversed(whole):
        if total <= max_bytes:
            return
        if backup.path not in going and newest[backup.store] != backup.path:
            going[backup.path] = BackupToPrune(
                backup, f"all backups together exceed {max_bytes:,} bytes"
            )
            total -= backup.size


def prune_backups(
    directory: str | Path,
    rule: BackupRule,
    *,
    dry_run: bool = False,
    now: Callable[[], float] = time.time,
) -> PruneResult:
    """Remove backups by a rule; with *dry_run*, only return them.

    First the newest backup of each affected store is compared with its digests: if it is damaged,
    the newest intact one is kept. Damaged backups, and those of a later version, are neither
    counted nor removed.

    Raises:
        StoreLocked: another process creates or removes backups there.
        BackupRefused: the directory cannot be used.
    """
    place = Path(directory)
    if dry_run:
        return _pruned(place, rule, now())
    if not place.is_dir():
        return PruneResult([], [])
    with lock_backup_directory(place, PATIENCE):
        return prune_locked_directory(place, rule, now())


def prune_locked_directory(directory: Path, rule: BackupRule, now: float) -> PruneResult:
    """Remove backups by a rule; the caller holds `lock_backup_directory`."""
    pruned = _pruned(directory, rule, now)
    for going in pruned.gone:
        going.backup.path.unlink(missing_ok=True)
        logger.info("%s was removed: %s", going.backup.path, going.why)
    if pruned.gone:
        sync_directory(directory)
    return pruned


def _pruned(directory: Path, rule: BackupRule, now: float) -> PruneResult:
    backups = list_backups(directory)
    damaged: set[Path] = set()
    while True:
        usable = [backup for backup in backups if backup.path not in damaged]
        going = choose(usable, rule, now)
        stores = {one.backup.store for one in going}
        newest: dict[str, Backup] = {}
        for backup in usable:
            if backup.state == "complete" and backup.store in stores:
                newest.setdefault(backup.store, backup)
        found = {backup.path for backup in newest.values() if not _is_whole(backup)}
        if not found:
            gone = {one.backup.path for one in going}
            return PruneResult(going, [backup for backup in backups if backup.path not in gone])
        damaged |= found


def _is_whole(backup: Backup) -> bool:
    try:
        check_digests(backup.path)
    except BackupRefused as error:
        logger.warning("%s", error)
        return False
    return True
