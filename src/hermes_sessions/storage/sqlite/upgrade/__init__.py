"""Upgrades a file of the documented Hermes layout, versions 1 to 22, to a store of ours.

``file_upgrade`` runs the whole; ``layout`` changes tables, indexes and triggers; ``sessions``,
``messages`` and ``topics`` convert rows; ``lineage`` stores what the old layout inferred from
timestamps; ``backup_copy`` makes the copy beforehand.
"""

from hermes_sessions.storage.sqlite.upgrade.file_upgrade import upgrade_documented_layout

__all__ = ["upgrade_documented_layout"]
