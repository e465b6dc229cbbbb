"""Making, verifying, listing, rotating and restoring backups.

What is listed here is for everybody; names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_sessions.storage.care.backups.catalogue import Backup, list_backups
    from hermes_sessions.storage.care.backups.checking import verify_backup
    from hermes_sessions.storage.care.backups.contents import (
        Containing,
        backups_containing,
        opened_as_store,
        remove_backup,
        rewrite_backup,
    )
    from hermes_sessions.storage.care.backups.making import create_backup
    from hermes_sessions.storage.care.backups.restoring import Restored, restore_backup
    from hermes_sessions.storage.care.backups.rotation import BackupRule, Pruned, prune_backups

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
    "Backup": "catalogue",
    "BackupRule": "rotation",
    "Containing": "contents",
    "Pruned": "rotation",
    "Restored": "restoring",
    "backups_containing": "contents",
    "create_backup": "making",
    "list_backups": "catalogue",
    "opened_as_store": "contents",
    "prune_backups": "rotation",
    "remove_backup": "contents",
    "restore_backup": "restoring",
    "rewrite_backup": "contents",
    "verify_backup": "checking",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
