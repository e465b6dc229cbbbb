"""Back up a store before a provider migrates its tables.

Providers must not import each other, and the backup format depends on SQLite. So this module loads
the backup code by name, and only when a migration is due.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from hermes_sessions.storage.provider import ReadTransaction

#: Copies a snapshot of a store to a new file; calls back with the amount done and the total.
CopyImage = Callable[[Path, Callable[[int, int], None]], None]

_BACKUPS = "hermes_sessions.storage.care.backups.migration_backup"


class BackupSource(NamedTuple):
    """The facts about a store that a backup needs."""

    #: The name of its database.
    provider: str
    #: Its location, without secrets.
    store: str
    #: The migrations that were applied to it.
    steps: tuple[str, ...]
    size: int
    #: Opens a consistent read transaction.
    read: Callable[[], AbstractContextManager[ReadTransaction]]
    #: See `Dialect.tables_query`.
    tables_query: str | None
    #: None if the store is not a file.
    copy_image: CopyImage | None = None


def back_up_before_migration(
    source: BackupSource,
    *,
    file: Path | None,
    patience: float,
    still_needed: Callable[[], bool] = lambda: True,
) -> AbstractContextManager[None]:
    """Back up a store, then let the block migrate it; see ``care.backups.migration_backup``."""
    lent: AbstractContextManager[None] = import_module(_BACKUPS).back_up_before_migration(
        source, file=file, patience=patience, still_needed=still_needed
    )
    return lent
