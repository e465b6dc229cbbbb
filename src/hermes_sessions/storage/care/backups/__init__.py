"""Create, verify, list, rotate and restore backups.

The public names; each is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_sessions.storage.care.backups.backup_contents import (
        BackupMatch,
        backups_containing,
        opened_as_store,
        remove_backup,
        rewrite_backup,
    )
    from hermes_sessions.storage.care.backups.backup_directory import Backup, list_backups
    from hermes_sessions.storage.care.backups.creation import create_backup
    from hermes_sessions.storage.care.backups.restore import RestoreResult, restore_backup
    from hermes_sessions.storage.care.backups.rotation import BackupRule, PruneResult, prune_backups
    from hermes_sessions.storage.care.backups.verification import verify_backup

__all__ = [
    "Backup",
    "BackupMatch",
    "BackupRule",
    "PruneResult",
    "RestoreResult",
    "backups_containing",
    "create_backup",
    "list_backups",
    "opened_as_store",
    "prune_backups",
    "remove_backup",
    "restore_backup",
    "rewrite_backup",
    "verify_backup",
]

_MODULE_OF = {
    "Backup": "backup_directory",
    "BackupMatch": "backup_contents",
    "BackupRule": "rotation",
    "PruneResult": "rotation",
    "RestoreResult": "restore",
    "backups_containing": "backup_contents",
    "create_backup": "creation",
    "list_backups": "backup_directory",
    "opened_as_store": "backup_contents",
    "prune_backups": "rotation",
    "remove_backup": "backup_contents",
    "restore_backup": "restore",
    "rewrite_backup": "backup_contents",
    "verify_backup": "verification",
}

#: Names that were renamed and still import.
_FORMER_NAMES = {
    "Containing": "BackupMatch",
    "Pruned": "PruneResult",
    "Restored": "RestoreResult",
}


def __getattr__(name: str) -> Any:
    name = _FORMER_NAMES.get(name, name)
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
