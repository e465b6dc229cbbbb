"""The backup made before a new version migrates a store.

One process makes it and then applies the migrations; other processes that open the store wait. On a
server the lock of the migration itself ensures that, even between machines; for a SQLite file the
lock of the backup directory does. Older versions keep writing: their writes between the backup and
the migration are in the store, but not in the backup.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hermes_sessions.errors import (
    BackupRefused,
    ConfigError,
    DiskFull,
    StoreLocked,
    StoreUnavailable,
    TransferRefused,
)
from hermes_sessions.storage.care.backups.backup_directory import (
    list_backups,
    lock_backup_directory,
)
from hermes_sessions.storage.care.backups.creation import Progress, make
from hermes_sessions.storage.care.backups.portable_format import counts_of
from hermes_sessions.storage.care.backups.rotation import BackupRule, prune_locked_directory
from hermes_sessions.storage.care.backups.verification import check_digests
from hermes_sessions.storage.logs import Logger
from hermes_sessions.storage.migration_backup import BackupSource

if TYPE_CHECKING:
    from hermes_sessions.config.settings import BackupsSettings

logger = Logger(__name__)

#: A backup of the same migrations and rows that is at most this old is reused: a service that
#: crashes in a migration and restarts repeatedly does not fill the disk.
_FRESH: Final = 3600.0
#: Stores of at least this many bytes are announced, because their backup takes a while.
_LARGE: Final = 64 * 2**20


@contextmanager
def back_up_before_migration(
    source: BackupSource,
    *,
    file: Path | None,
    patience: float,
    still_needed: Callable[[], bool] = lambda: True,
) -> Iterator[None]:
    """Back up a store, then let the block migrate it; other processes wait until it ends.

    An empty store is not backed up, nor one for which the configuration disables it; the latter
    logs a warning. *file* is the path of a SQLite store. *still_needed* tells, after the wait,
    whether the migration is still pending.

    Raises:
        StoreLocked: another process held the lock for longer than *patience* seconds.
        DiskFull, StoreUnavailable: the backup failed, so nothing may be changed.
        StoreCorrupt: the store is damaged.
    """
    settings, directory = _settings(file)
    if not _is_wanted(source, settings):
        yield
        return
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_backup_directory(directory, patience))
        except StoreLocked as error:
            raise StoreLocked(
                f"{source.store} is being backed up by another process before a migration. "
                f"Waited {patience:g} s; try again later."
            ) from error
        except BackupRefused as error:
            raise _refused(source, error) from error
        if still_needed():
            _back_up(source, directory, settings)
        yield


def _settings(file: Path | None) -> tuple[BackupsSettings, Path]:
    """Return the backup settings and the directory.

    A file that is not the configured store has its backups beside it.
    """
    from hermes_sessions.config import default_settings, hermes_home, load_settings

    try:
        settings = load_settings()
    except ConfigError as error:
        # Opening a file by its path must not depend on the configuration.
        logger.warning("The configuration cannot be read (%s); using defaults", error)
        settings = default_settings(hermes_home())
    if file is not None and str(file) != os.path.realpath(settings.sessiondb.sqlite.path):
        return settings.backups, file.parent / "backups"
    return settings.backups, settings.backups.directory


def _is_wanted(source: BackupSource, settings: BackupsSettings) -> bool:
    with source.read() as tx:
        if not any(counts_of(tx, source.tables_query).values()):
            return False
    if not settings.before_migration:
        logger.warning(
            "%s is migrated WITHOUT a backup: backups.before_migration is off", source.store
        )
        return False
    bound = settings.before_migration_max_bytes
    if bound is not None and source.size > bound:
        logger.warning(
            "%s is migrated WITHOUT a backup: it has %d bytes, more than "
            "backups.before_migration_max_bytes (%d)",
            source.store,
            source.size,
            bound,
        )
        return False
    return True


def _back_up(source: BackupSource, directory: Path, settings: BackupsSettings) -> None:
    now = time.time()
    try:
        if _has_fresh_one(source, directory, now):
            return
        if source.size >= _LARGE:
            logger.warning(
                "%s has %d MB; it is backed up and then migrated, once, while it stays in use",
                source.store,
                source.size // 2**20,
            )
        progress = _log_progress(source.store)
        made = make(source, directory, reason="before migration", on_progress=progress)
    except (BackupRefused, TransferRefused, StoreUnavailable) as error:
        raise _refused(source, error) from error
    logger.info("%s was backed up before a migration: %s", source.store, made.path)
    rule = BackupRule(settings.keep, settings.max_age_days, settings.max_bytes)
    try:
        prune_locked_directory(directory, rule, now)
    except OSError as error:
        logger.warning("Old backups in %s were not removed: %s", directory, error)


def _log_progress(store: str) -> Progress:
    """Return a callback that logs every tenth of each activity."""
    logged: dict[str, int] = {}

    def reach(what: str, done: int, total: int) -> None:
        tenth = 10 * done // max(total, 1)
        if tenth > logged.setdefault(what, 0):
            logged[what] = tenth
            logger.info("%s: backup before a migration: %s %d %%", store, what, 10 * tenth)

    return reach


def _has_fresh_one(source: BackupSource, directory: Path, now: float) -> bool:
    candidates = [
        backup
        for backup in list_backups(directory)
        if backup.state == "complete"
        and backup.reason == "before migration"
        and (backup.store, backup.steps) == (source.store, source.steps)
        and now - _FRESH < backup.created <= now
    ]
    if not candidates:
        return False
    with source.read() as tx:
        counts = counts_of(tx, source.tables_query)
    for backup in candidates:
        if backup.counts == counts:
            check_digests(backup.path)
            logger.info("%s: the backup %s is up to date", source.store, backup.path)
            return True
    return False


def _refused(source: BackupSource, error: Exception) -> StoreUnavailable:
    kind = DiskFull if isinstance(error, DiskFull) else StoreUnavailable
    return kind(
        f"{source.store} was not changed, because its backup failed: {error} To "
        f"migrate it without a backup, set backups.before_migration to false in config.yaml."
    )
