"""Making, verifying, listing, rotating and restoring backups.

What is listed here is for everybody; names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_sessions.storage.care.backups.backup_contents import (
        Containing,
        backups_containing,
        opened_as_store,
        remove_backup,
        rewrite_backup,
    )
    from hermes_sessions.storage.care.backups.backup_directory import Backup, list_backups
    from hermes_sessions.storage.care.backups.creation import create_backup
    from hermes_sessions.storage.care.backups.restore import Restored, restore_backup
    from hermes_sessions.storage.care.backups.rotation import BackupRule, Pruned, prune_backups
    from hermes_sessions.storage.care.backups.verification import verify_backup

__all__ = [
    "Backup",
    "BackupRule",
    "Containing",
    "Pruned",
    "Restored",
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
    "BackupRule": "rotation",
    "Containing": "backup_contents",
    "Pruned": "rotation",
    "Restored": "restore",
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


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
