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

#: Copies one state of a store to a new file, and tells how much is done of how much.
CopyImage = Callable[[Path, Callable[[int, int], None]], None]

_BACKUPS = "hermes_sessions.storage.care.backups.migration_backup"


class BackupSource(NamedTuple):
    """A store as a backup needs it."""

    #: The name of its database.
    provider: str
    #: Where it is; never a secret.
    store: str
    #: The steps that its tables have taken.
    steps: tuple[str, ...]
    size: int
    #: Lends a read of one state.
    read: Callable[[], AbstractContextManager[ReadTransaction]]
    #: See `Dialect.tables_query`.
    tables_query: str | None
    #: None where the store is not a file.
    copy_image: CopyImage | None = None


def back_up_before_migration(
    source: BackupSource,
    *,
    file: Path | None,
    patience: float,
    still_needed: Callable[[], bool] = lambda: True,
) -> AbstractContextManager[None]:
    """Lend the time to change the tables, after a backup; see `before_migration`."""
    lent: AbstractContextManager[None] = import_module(_BACKUPS).back_up_before_migration(
        source, file=file, patience=patience, still_needed=still_needed
    )
    return lent
